//! A Nacre process at an address of its own, with folders that outlive it.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::sleep};

/// A start or a stop that takes longer than this has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A node, running or not; killed when dropped.
pub struct Node {
    ip: IpAddr,
    port: u16,
    folder: PathBuf,
    settings: Vec<String>,
    child: Option<Child>,
    stdout: Arc<Mutex<Vec<String>>>,
}

impl Node {
    /// One that doesn't run yet. `settings` are `KEY=VALUE`.
    pub fn new(ip: IpAddr, port: u16, folder: PathBuf, settings: Vec<String>) -> Self {
        fs::create_dir_all(folder.join("conf")).unwrap();
        Self { ip, port, folder, settings, child: None, stdout: Arc::default() }
    }

    /// Where it listens, and what its members list.
    pub fn at(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }

    /// Its `cluster.conf`.
    pub fn cluster_conf(&self) -> PathBuf {
        self.folder.join("conf/cluster.conf")
    }

    /// Gives it another `cluster.conf`, in one step as a careful operator does.
    pub fn write_cluster_conf(&self, text: &str) {
        let new = self.folder.join("conf/cluster.conf.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.cluster_conf()).unwrap();
    }

    /// Adds settings for its next start.
    pub fn set(&mut self, settings: impl IntoIterator<Item = String>) {
        self.settings.extend(settings);
    }

    /// Everything that was written to stderr, by every process that ran here.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    /// The lines on stdout of the process that was started last.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.lock().clone()
    }

    /// Of the running process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Starts the process; its listener is open when this returns, its data may not be loaded.
    pub async fn start(&mut self) {
        assert!(self.child.is_none(), "{} runs", self.at());
        let mut child = self.command().spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (first, ready) = oneshot::channel();
        self.stdout = Arc::default();
        let said = Arc::clone(&self.stdout);
        thread::spawn(move || {
            let mut first = Some(first);
            for line in stdout.lines().map_while(Result::ok) {
                said.lock().push(line.clone());
                if let Some(first) = first.take() {
                    drop(first.send(line));
                }
            }
        });
        self.child = Some(child);
        let line = tokio::time::timeout(PATIENCE, ready).await;
        let listens =
            matches!(&line, Ok(Ok(line)) if line.starts_with("ready ") || line.starts_with("waiting "));
        assert!(listens, "{} says {line:?} and\n{}", self.at(), self.stderr());
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nacre"));
        command.arg("serve").arg("--data").arg(self.folder.join("data"));
        command.arg("--config-dir").arg(self.folder.join("conf"));
        let own = [
            format!("server.address={}", self.ip),
            format!("server.port={}", self.port),
            format!("nacos.server.ip={}", self.ip),
        ];
        for setting in own.iter().chain(&self.settings) {
            command.arg("--set").arg(setting);
        }
        let log = File::options().create(true).append(true).open(self.folder.join("stderr")).unwrap();
        // What the environment of whoever runs the tests says about a Nacos must not count.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).env_clear();
        command
    }

    /// SIGKILL; returns when it is dead.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGSTOP.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Waits until it has ended, after it was told to.
    pub async fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.as_mut().expect("it ran").try_wait().unwrap() {
                self.child = None;
                return status;
            }
            assert!(Instant::now() < end, "{} doesn't end:\n{}", self.at(), self.stderr());
            sleep(Duration::from_millis(10)).await; // the standard library can't wait with a limit
        }
    }

    /// Processor time that the process has used, of all its threads.
    pub fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10) // a tick is 10 ms on every Linux that matters
    }

    /// Resident memory in MiB.
    pub fn memory(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
