//! The command line: reads the words, loads the settings, hands over to the command.

use std::{
    collections::BTreeMap,
    env, io,
    io::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand, error::ErrorKind};

use crate::{
    config::{self, Loaded, SettingError, Sources},
    drain,
};

/// A naming server that speaks the HTTP API of Nacos 1.x.
///
/// Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "nacre", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve until SIGTERM or SIGINT.
    ///
    /// Writes "ready http://ADDRESS:PORT/nacos" to stdout once it serves; a member that loads the data of
    /// others before writes a line that begins with "waiting http://ADDRESS:PORT/nacos" first. A setting that can't be
    /// taken, an occupied port or an unreadable data folder ends it at once with exit code 1 and the
    /// reason on stderr.
    Serve(ServeArgs),

    /// Let the node that runs on this host leave its cluster in order, then stop.
    ///
    /// Others get what they lack and own what it owned before its port is shut, as at a SIGTERM. A node
    /// that serves alone just stops. Ends with exit code 0 when the port is shut; 1 where the node wasn't
    /// told, and goes on; 2 where the URL names no node; 3 where it was told and still takes connections when
    /// the time is over.
    Drain(DrainArgs),
}

#[derive(Args, Clone, Debug)]
struct DrainArgs {
    /// Where the node listens; a path behind it is of no account. Without a port: 8848.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8848")]
    url: String,

    /// How long to wait at most. The node itself takes nacre.drain.timeout-ms for leaving.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

#[derive(Args, Clone, Debug, Default, PartialEq)]
struct ServeArgs {
    /// Settings file (Java properties).
    ///
    /// Without it: DATA/conf/application.properties, else ./conf/application.properties, else the
    /// built-in defaults. Environment variables win over the file, --set over both.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Folder of cluster.conf; it must exist.
    ///
    /// Without it: the folder of the settings file that was read, else DATA/conf. No settings file is looked for in it.
    #[arg(long, value_name = "DIR")]
    config_dir: Option<PathBuf>,

    /// Folder of the store; made when it doesn't exist [default: ./data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Give one key of the settings file a value; may be repeated.
    ///
    /// Example: --set server.port=0 takes any free port.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Runs the command that the process was called with; `serve` does the serving.
///
/// Prints every setting that can't be taken to stderr and gives exit code 1 for them; 2 for words
/// that the command line doesn't know.
pub fn run(serve: impl FnOnce(Loaded) -> ExitCode) -> ExitCode {
    let arguments = match Cli::parse().ask().unwrap_or_else(|error| error.exit()) {
        Asked::Drain(DrainArgs { url, timeout }) => return drain::run(&url, Duration::from_secs(timeout)),
        Asked::Serve(arguments) => arguments,
    };
    let named = arguments.config.clone();
    // What a person names may be a pipe that a program writes the settings into; what is looked for is a file.
    let read = |path: &Path| match &named {
        Some(named) if named == path => config::read_file(path),
        _ => config::read_in_time(path),
    };
    match config::load(&arguments.sources(environment()), &read) {
        Ok(loaded) => serve(loaded),
        Err(errors) => {
            // If nobody reads stderr, the exit code still tells.
            let _ = io::stderr().write_all(refusal(&errors).as_bytes());
            ExitCode::FAILURE
        }
    }
}

/// What the process shall do.
#[derive(Debug)]
enum Asked {
    Serve(ServeArgs),
    Drain(DrainArgs),
}

impl Cli {
    /// Options of `serve` may stand before the word, too; `drain` has none of them.
    fn ask(self) -> Result<Asked, clap::Error> {
        match self.command {
            None => Ok(Asked::Serve(self.serve)),
            Some(Command::Serve(behind)) => Ok(Asked::Serve(self.serve.and(behind))),
            Some(Command::Drain(arguments)) if self.serve == ServeArgs::default() => {
                Ok(Asked::Drain(arguments))
            }
            Some(Command::Drain(_)) => {
                let text = "drain takes none of the options of serve that stand before it";
                Err(Self::command().error(ErrorKind::ArgumentConflict, text))
            }
        }
    }
}

impl ServeArgs {
    /// Both; of what is given twice the later one counts.
    fn and(mut self, later: Self) -> Self {
        self.set.extend(later.set);
        Self {
            config: later.config.or(self.config),
            config_dir: later.config_dir.or(self.config_dir),
            data: later.data.or(self.data),
            set: self.set,
        }
    }

    fn sources(self, environment: BTreeMap<String, String>) -> Sources {
        let Self { config, config_dir, data, set } = self;
        Sources { config, config_dir, data, set, environment }
    }
}

/// Variables that aren't UTF-8 name no setting of ours.
fn environment() -> BTreeMap<String, String> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn refusal(errors: &[SettingError]) -> String {
    let count = match errors.len() {
        1 => "a setting is wrong".to_owned(),
        count => format!("{count} settings are wrong"),
    };
    let lines: String = errors.iter().map(|error| format!("  {error}\n")).collect();
    format!("nacre doesn't start, {count}:\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> ServeArgs {
        let cli = Cli::try_parse_from(["nacre"].iter().chain(words)).expect("known words");
        match cli.ask().expect("no contradiction") {
            Asked::Serve(arguments) => arguments,
            Asked::Drain(_) => panic!("it drains"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_may_be_left_out() {
        for words in [
            &["--data", "x", "--set", "a=b", "--set", "c=d=e"][..],
            &["serve", "--data", "x", "--set", "a=b", "--set", "c=d=e"][..],
            &["--data", "x", "--set", "a=b", "serve", "--set", "c=d=e"][..],
            &["--data", "y", "serve", "--data", "x", "--set", "a=b", "--set", "c=d=e"][..],
        ] {
            let arguments = parse(words);
            assert_eq!(arguments.data, Some(PathBuf::from("x")));
            assert_eq!(arguments.set, ["a=b", "c=d=e"]);
        }
        assert_eq!(parse(&[]).config, None);
    }

    #[test]
    fn each_command_tells_the_version() {
        for words in [&["--version"][..], &["serve", "--version"], &["drain", "--version"]] {
            let told = Cli::try_parse_from(["nacre"].iter().chain(words)).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::DisplayVersion, "{words:?}");
        }
    }

    #[test]
    fn a_node_on_this_host_is_drained_unless_another_is_named() {
        let drained = |words: &[&str]| match Cli::try_parse_from(["nacre", "drain"].iter().chain(words))
            .expect("known words")
            .command
        {
            Some(Command::Drain(DrainArgs { url, timeout })) => (url, timeout),
            other => panic!("{other:?}"),
        };
        assert_eq!(drained(&[]), ("http://127.0.0.1:8848".into(), 30));
        assert_eq!(drained(&["--url", "http://a:1", "--timeout", "5"]), ("http://a:1".into(), 5));
        assert!(Cli::try_parse_from(["nacre", "drain", "--timeout", "0"]).is_err());
    }

    #[test]
    fn options_of_serve_are_none_of_drain() {
        let error =
            Cli::try_parse_from(["nacre", "--set", "a=b", "drain"]).expect("known words").ask().unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::ArgumentConflict, 2));
        assert!(Cli::try_parse_from(["nacre", "drain", "--set", "a=b"]).is_err());
    }

    #[test]
    fn an_unknown_word_is_refused() {
        assert!(Cli::try_parse_from(["nacre", "serv"]).is_err());
        assert!(Cli::try_parse_from(["nacre", "--port", "1"]).is_err());
    }
}
