//! A Nacre process with a data folder of its own, on a free port; killed when dropped.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A start or a stop that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The folder of a server: its data and what it said. It outlives the process, so that another can be
/// started on what the first left behind.
pub struct Home {
    folder: TempDir,
}

impl Home {
    pub fn new() -> Self {
        Self { folder: TempDir::with_prefix("nacre-").unwrap() }
    }

    /// What `--data` names.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Everything that was written to stderr, by every process that was started here.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("stderr")
    }
}

/// A running server.
pub struct Server {
    child: Child,
    url: String,
    home: Option<Home>,
}

impl Server {
    /// Starts one in a new folder with the usual settings of a test: any free port, own address 127.0.0.1.
    pub fn start() -> Self {
        Self::start_in(Home::new(), &[])
    }

    /// Starts one in a folder, with `KEY=VALUE` settings in addition to the usual ones, and waits until
    /// it says that it is ready.
    pub fn start_in(home: Home, settings: &[&str]) -> Self {
        let command = command(&home.data(), settings);
        Self::start_as(command, home)
    }

    /// Starts one that can't make any of its files longer than this, as on a disk that is nearly full.
    pub fn start_limited(home: Home, settings: &[&str], most_bytes: u64) -> Self {
        let server = command(&home.data(), settings);
        let mut command = Command::new("sh");
        // Without the trap the first write beyond the limit would end the process.
        let script = r#"trap '' XFSZ && ulimit -f "$0" && exec "$@""#;
        command.args(["-c", script]).arg((most_bytes / 512).to_string());
        command.arg(server.get_program()).args(server.get_args()).stdin(Stdio::null());
        Self::start_as(command, home)
    }

    fn start_as(mut command: Command, home: Home) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(home.log()).unwrap())
            .spawn()
            .unwrap();
        let (lines, ready) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        // Reads on after the first line: a full pipe would stop the server.
        thread::spawn(move || stdout.lines().map_while(Result::ok).for_each(|line| drop(lines.send(line))));
        let mut server = Self { child, url: String::new(), home: Some(home) };
        server.url = match ready.recv_timeout(PATIENCE) {
            Ok(line) => {
                line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line:?} on stdout")).to_owned()
            }
            Err(RecvTimeoutError::Timeout) => panic!("not ready in {PATIENCE:?}:\n{}", server.stderr()),
            Err(RecvTimeoutError::Disconnected) => panic!("it ended:\n{}", server.stderr()),
        };
        server
    }

    /// `http://127.0.0.1:PORT/nacos`
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        self.home.as_ref().map(Home::stderr).unwrap_or_default()
    }

    /// Kills it at once (SIGKILL) and leaves its folder.
    pub fn kill(mut self) -> Home {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.home.take().unwrap()
    }

    /// Starts one whose stdout is closed at the other end; what it serves at is read from its log.
    pub fn start_unread(home: Home) -> Self {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = command(&home.data(), &[]);
        let log = File::options().create(true).append(true).open(home.log()).unwrap();
        let child = command.stdout(writer).stderr(log).spawn().unwrap();
        let mut server = Self { child, url: String::new(), home: Some(home) };
        let end = Instant::now() + PATIENCE;
        server.url = loop {
            let said = server.stderr();
            // Its end shows that the line is whole.
            let line =
                said.split_inclusive('\n').find(|line| line.contains("serving") && line.ends_with('\n'));
            if let Some(address) = line.and_then(|line| line.split("address=").nth(1)?.split(' ').next()) {
                break format!("http://{address}/nacos");
            }
            assert!(server.child.try_wait().unwrap().is_none(), "it ended:\n{said}");
            assert!(Instant::now() < end, "not ready in {PATIENCE:?}:\n{said}");
            thread::sleep(Duration::from_millis(10)); // a file can't be waited for
        };
        server
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub fn stop(self) -> (ExitStatus, Home) {
        self.stop_by("TERM")
    }

    /// Sends it this signal and waits until it has ended.
    pub fn stop_by(self, signal: &str) -> (ExitStatus, Home) {
        self.signal(signal);
        self.ended()
    }

    /// Sends it this signal again and again, until it has ended.
    pub fn stop_by_repeating(mut self, signal: &str) -> (ExitStatus, Home) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.home.take().unwrap());
            }
            assert!(Instant::now() < end, "it didn't end in {PATIENCE:?}:\n{}", self.stderr());
            self.signal(signal);
        }
    }

    /// Waits until it has ended, after it was told to.
    pub fn ended(mut self) -> (ExitStatus, Home) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, self.home.take().unwrap());
            }
            assert!(Instant::now() < end, "it didn't end in {PATIENCE:?}:\n{}", self.stderr());
            thread::sleep(Duration::from_millis(10)); // the standard library can't wait with a limit
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a server that is expected to end by itself, e.g. for a bad setting: its status and stderr.
pub fn refused(data: &Path, settings: &[&str]) -> (ExitStatus, String) {
    let output = command(data, settings).stdin(Stdio::null()).output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Starts one that may have this many files open, and ends it as soon as it serves; else gives what it said.
pub fn start_with_files(home: &Home, most_files: u32) -> Result<String, String> {
    let server = command(&home.data(), &[]);
    let mut child = Command::new("sh")
        .args(["-c", r#"ulimit -n "$0" && exec "$@""#])
        .arg(most_files.to_string())
        .arg(server.get_program())
        .args(server.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let serves = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap() > 0;
    // Where it doesn't serve, its end closed stdout.
    if serves {
        assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if serves { Ok(said) } else { Err(said) }
}

fn command(data: &Path, settings: &[&str]) -> Command {
    let mut arguments: Vec<OsString> = vec!["serve".into(), "--data".into(), data.into()];
    for setting in ["server.port=0", "nacos.server.ip=127.0.0.1"].iter().chain(settings) {
        arguments.extend(["--set".into(), setting.into()]);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nacre"));
    // What the environment of whoever runs the tests says about a Nacos must not count.
    command.args(arguments).stdin(Stdio::null()).env_clear();
    command
}
