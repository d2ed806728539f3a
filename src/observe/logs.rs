//! What is logged, how a line looks, and which severities are shown.
//!
//! Everything goes to stderr; stdout carries the ready line alone, and of a member one that it waits. ERROR: a person must look. WARN: something went
//! wrong, service continues. INFO: the state of the node changed. DEBUG: per request. Facts are fields, not
//! sentences. The target of a line is the module that wrote it, `nacre::cp` for one.
//!
//! Lines of the target `proxy_access` are those of the reverse proxy, by `nacre.proxy.access-log`: objects of JSON whatever the
//! form of all other lines is. Their fields: `client`,
//! `method`, `host`, `uri` (path, and the names of the query's parameters), `status`, `bytes` and `took_us` (until the client
//! had the last byte), `rule`, `instance`, `attempts`, `failure` in one word, `request_id`; `-` for what there isn't.
//!
//! Lines of the target `access`, one per request, are written with `server.tomcat.accesslog.enabled` alone, whatever
//! the level is. Their fields:
//!
//! | field | what |
//! | --- | --- |
//! | `peer` | address and port of the other end of the connection |
//! | `method` | of the request |
//! | `uri` | path and query; passwords and tokens are masked, beyond 2,048 bytes it is cut |
//! | `status` | of the answer |
//! | `bytes` | of the answer's body |
//! | `took_us` | microseconds from the read head to the answer |
//! | `agent` | `User-Agent`, cut beyond 256 bytes; `-` where there is none |

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt::{
        self, FmtContext, FormatEvent, FormatFields,
        format::{Format, Json, Writer},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt as _,
};

use super::lines::Lines;
use crate::config::{LogFormat, LogSettings, Notice, Severity};

/// Target of the lines that are written once per request.
pub const ACCESS: &str = "access";

/// Target of the lines of the reverse proxy, which writes them where its own setting says so.
pub const PROXY_ACCESS: &str = "proxy_access";

/// How long the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Logger names of the reference and the target that each stands for; ours is the prefix of modules.
///
/// Source: Nacos 1.4.8, the loggers of its naming module.
const NAMES: [(&str, &str); 8] = [
    ("nacre", "nacre"),
    ("naming-main", "nacre"),
    ("naming-push", "nacre::push"),
    ("naming-check", "nacre::health"),
    ("naming-event", "nacre::model"),
    ("naming-raft", "nacre::cp"),
    ("naming-distro", "nacre::distro"),
    ("core-auth", "nacre::auth"),
];

const LEVELS: [(&str, LevelFilter); 6] = [
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
    ("off", LevelFilter::OFF),
];

/// Logging as it runs; before the process ends, [`Logs::finish`] must be called.
#[derive(Debug)]
pub struct Logs {
    lines: Lines,
    levels: Levels,
}

/// Why a level isn't changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// No logger has this name.
    #[error("no logger is named {0:?}")]
    Name(String),
    /// No level is called so.
    #[error("{0:?} is none of error, warn, info, debug, trace, off")]
    Level(String),
}

/// Starts logging; from here on every event of the process is written as the settings say.
///
/// `access` shows the lines of [`ACCESS`]. Settings have been read by now; what they had to say is logged first.
///
/// # Errors
/// No thread can be started, or something else in the process logs already.
pub fn start(settings: &LogSettings, access: bool, notices: &[Notice]) -> io::Result<Logs> {
    let (logs, subscriber) = prepare(settings, access)?;
    subscriber.try_init().map_err(io::Error::other)?;
    std::panic::set_hook(Box::new(note_panic));
    for notice in notices {
        match notice.severity {
            Severity::Warn => tracing::warn!("{}", notice.text),
            Severity::Info => tracing::info!("{}", notice.text),
        }
    }
    Ok(logs)
}

/// Logging as the settings say, before it is the process's own.
///
/// # Errors
/// No thread can be started.
pub fn prepare(
    settings: &LogSettings,
    access: bool,
) -> io::Result<(Logs, impl tracing::Subscriber + Send + Sync + 'static)> {
    let lines = Lines::to(io::stderr())?;
    let (levels, filter) = Levels::new(settings.level.into(), access);
    let layer = layer(settings.format, takes_colours(), lines.clone());
    let subscriber = tracing_subscriber::registry().with(filter).with(layer);
    Ok((Logs { lines, levels }, subscriber))
}

impl Logs {
    /// Lines that were dropped because stderr was read too slowly.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lines.dropped()
    }

    /// Waits until all lines are written, a second at most.
    pub fn finish(&self) {
        self.lines.flush(LAST_LINES);
    }

    /// Shows lines of this logger from this level on, until the process ends.
    ///
    /// A logger of ours is known by the reference's name for it (`naming-push`) or as `nacre`, which is all of them;
    /// a level is a word of any case.
    ///
    /// # Errors
    /// [`LevelError`]; nothing changed then.
    pub fn set_level(&self, name: &str, level: &str) -> Result<(), LevelError> {
        self.levels.set(name, level)
    }
}

fn layer<S>(format: LogFormat, coloured: bool, lines: Lines) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
{
    fmt::layer().with_writer(lines).with_ansi(coloured).event_format(Form::new(format)).boxed()
}

/// How a line looks, by its target.
struct Form {
    format: LogFormat,
    text: Format,
    json: Format<Json>,
}

impl Form {
    fn new(format: LogFormat) -> Self {
        let json =
            Format::default().json().flatten_event(true).with_current_span(false).with_span_list(false);
        Self { format, text: Format::default(), json }
    }
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        line: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> std::fmt::Result {
        if self.format == LogFormat::Json || event.metadata().target() == PROXY_ACCESS {
            self.json.format_event(context, line, event)
        } else {
            self.text.format_event(context, line, event)
        }
    }
}

/// By the convention of <https://no-color.org>.
fn takes_colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A panic becomes a line like others, rather than text of a form of its own.
fn note_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    tracing::error!(
        place,
        thread = thread.name().unwrap_or_default(),
        "panicked: {}",
        panic.payload_as_str().unwrap_or("without a text")
    );
}

/// The level of each target. There are as many as [`NAMES`] has, however often they are changed.
#[derive(Debug)]
struct Levels {
    current: Mutex<Targets>,
    filter: reload::Handle<Targets, Registry>,
}

impl Levels {
    fn new(level: LevelFilter, access: bool) -> (Self, reload::Layer<Targets, Registry>) {
        let access = if access { LevelFilter::INFO } else { LevelFilter::OFF };
        let targets = Targets::new()
            .with_default(level)
            .with_target(ACCESS, access)
            .with_target(PROXY_ACCESS, LevelFilter::INFO);
        let (layer, filter) = reload::Layer::new(targets.clone());
        (Self { current: Mutex::new(targets), filter }, layer)
    }

    fn set(&self, name: &str, level: &str) -> Result<(), LevelError> {
        let target = NAMES.iter().find(|(known, _)| *known == name).map(|(_, target)| *target);
        let target = target.ok_or_else(|| LevelError::Name(shown(name)))?;
        let known = LEVELS.iter().find(|(word, _)| word.eq_ignore_ascii_case(level));
        let level = known.map(|(_, level)| *level).ok_or_else(|| LevelError::Level(shown(level)))?;
        let mut current = self.current.lock();
        let wanted = current.clone().with_target(target, level);
        if *current != wanted {
            // Fails only when nothing logs any more.
            let _ = self.filter.reload(wanted.clone());
            *current = wanted;
            drop(current);
            tracing::info!(logger = target, %level, "the level of a logger was changed");
        }
        Ok(())
    }
}

/// What a caller gave, no longer than a line.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use std::{io::Write, sync::Arc};

    use tracing::subscriber::with_default;

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written while `log` runs under these settings.
    fn written(format: LogFormat, access: bool, log: impl FnOnce(&Levels)) -> String {
        let kept = Kept::default();
        let lines = Lines::to(kept.clone()).unwrap();
        let (levels, filter) = Levels::new(LevelFilter::INFO, access);
        let subscriber =
            tracing_subscriber::registry().with(filter).with(layer(format, false, lines.clone()));
        with_default(subscriber, || log(&levels));
        lines.flush(Duration::from_secs(60));
        let bytes = kept.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_text_line_has_level_target_words_and_fields() {
        let text = written(LogFormat::Text, false, |_| tracing::warn!(service = "a b", "it went"));
        assert!(text.contains(" WARN nacre::observe::logs::tests: it went service=\"a b\"\n"), "{text}");
    }

    #[test]
    fn a_json_line_is_one_object() {
        let text = written(LogFormat::Json, false, |_| tracing::info!(count = 3, "it\nwent"));
        let line: serde_json::Value = serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap();
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "it\nwent");
        assert_eq!(line["count"], 3);
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn access_lines_are_shown_when_asked_for_alone() {
        let log = |_: &Levels| tracing::info!(target: ACCESS, status = 200);
        assert_eq!(written(LogFormat::Text, false, log), "");
        assert!(written(LogFormat::Text, true, log).contains("INFO access: status=200\n"));
    }

    #[test]
    fn access_lines_of_the_proxy_are_json_beside_others_of_text() {
        let text = written(LogFormat::Text, false, |_| {
            tracing::info!(target: PROXY_ACCESS, status = 200, uri = "/a \"b\"");
            tracing::info!(count = 3, "it went");
        });
        let (access, other) = text.split_once('\n').unwrap();
        let access: serde_json::Value = serde_json::from_str(access).unwrap();
        assert_eq!((&access["status"], &access["uri"]), (&200.into(), &"/a \"b\"".into()), "{access}");
        assert!(other.ends_with("it went count=3\n"), "{other}");
    }

    #[test]
    fn a_level_holds_for_its_logger() {
        let text = written(LogFormat::Text, false, |levels| {
            tracing::debug!(target: "nacre::push", "one");
            levels.set("naming-push", "Debug").unwrap();
            tracing::debug!(target: "nacre::push", "two");
            tracing::debug!(target: "nacre::cp", "three");
            levels.set("naming-push", "OFF").unwrap();
            tracing::error!(target: "nacre::push", "four");
        });
        let shows = ["one", "two", "three", "four"].map(|word| text.contains(word));
        assert_eq!(shows, [false, true, false, false], "{text}");
    }

    #[test]
    fn unknown_names_and_levels_change_nothing() {
        written(LogFormat::Text, false, |levels| {
            let before = levels.current.lock().clone();
            assert_eq!(levels.set("nothing", "info"), Err(LevelError::Name("nothing".into())));
            assert_eq!(levels.set("nacre", "nonsense"), Err(LevelError::Level("nonsense".into())));
            assert_eq!(*levels.current.lock(), before);
        });
    }

    #[test]
    fn however_often_levels_change_there_are_as_many_as_names() {
        written(LogFormat::Text, true, |levels| {
            for (_, level) in LEVELS.iter().cycle().take(100) {
                for (name, _) in NAMES {
                    levels.set(name, &level.to_string()).unwrap();
                }
            }
            assert!(levels.current.lock().iter().count() <= NAMES.len() + 2);
        });
    }
}
