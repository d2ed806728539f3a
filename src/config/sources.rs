//! Puts the settings together: defaults < file < environment < command line.
//!
//! Every source gives keys with their place; the table in `keys` says what each does; all that is
//! wrong is collected and told at once. I/O happens only through the `read` that the caller gives.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
};

use super::{
    cluster_settings::Lookup,
    environment, files,
    findings::{Notice, Place, SettingError},
    keys::{self, KEYS, Key, REPLACED_BY, Treatment},
    mode, own_address, placeholders, properties,
    settings::Settings,
    values,
};

/// Everything that settings come from, besides the file itself.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `--config`: the settings file; it must exist. Without it one is looked for.
    pub config: Option<PathBuf>,
    /// `--config-dir`: the folder of `cluster.conf`.
    pub config_dir: Option<PathBuf>,
    /// `--data`: the folder of the store.
    pub data: Option<PathBuf>,
    /// The words after each `--set`, `KEY=VALUE`; of one key the last counts.
    pub set: Vec<String>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

/// The settings, and what to tell about them.
#[derive(Debug)]
pub struct Loaded {
    /// What counts.
    pub settings: Settings,
    /// The file that was read, if one was.
    pub file: Option<PathBuf>,
    /// What the operator should know, in the order of importance: warnings first.
    pub notices: Vec<Notice>,
}

/// The members' secrets, name and value, that manuals of Nacos give as examples.
const KNOWN_IDENTITIES: [(&str, &str); 2] = [("serverIdentity", "security"), ("example", "example")];

/// Where a value comes from, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    File,
    /// The container image's own names: its file and start script put them into keys.
    Image,
    Environment,
    JavaOpt,
    JavaOptExt,
    CommandLine,
}

/// One key as one source gives it.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub layer: Layer,
    pub place: Place,
    /// As it was written.
    pub key: String,
    /// As it was written, without blanks at its ends; placeholders are still in it.
    pub value: String,
}

/// Puts the settings together. Files are read by `read` ([`super::read_in_time`] outside of tests).
///
/// # Errors
/// All values that can't be taken, each with its place; then the server must not start.
pub fn load(
    sources: &Sources,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Loaded, Vec<SettingError>> {
    let mut loading = Loading::default();
    loading.take_command_line(&sources.set);
    loading.take_environment(&sources.environment);
    loading.names = loading.all_names(&sources.environment);
    let home = loading.home();
    let candidates = files::candidates(sources, home.as_deref());
    let file = loading.take_file(&candidates, sources.config.is_some(), read);
    loading.names = loading.all_names(&sources.environment);

    let mut settings = Settings::default();
    loading.classify();
    for key in KEYS {
        loading.apply(key, &mut settings);
    }
    own_address::follow_listener(&mut settings);
    if let Some(data) = &sources.data {
        settings.data_dir.clone_from(data);
    }
    settings.config_dir = files::config_dir(sources, file.as_deref(), home.as_deref(), &settings.data_dir);
    loading.check_config_dir(sources, read);
    loading.check_mode(&mut settings, read);
    loading.check_identity(&settings);
    if sources.config_dir.is_some() {
        loading.tell_unread(&settings, file.as_deref(), read);
    }
    loading.finish(settings, file)
}

/// What is known so far.
#[derive(Default)]
struct Loading {
    given: Vec<Given>,
    /// The table's row of each of `given`, once they are classified.
    rows: Vec<Option<(&'static Key, Option<usize>)>>,
    /// Values by every name that a placeholder may use.
    names: HashMap<String, String>,
    errors: Vec<SettingError>,
    warnings: Vec<Notice>,
    /// Keys and variables without effect, for one line.
    accepted: Vec<String>,
}

impl Loading {
    fn take_command_line(&mut self, set: &[String]) {
        for word in set {
            match word.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => self.given.push(Given {
                    layer: Layer::CommandLine,
                    place: Place::CommandLine,
                    key: key.trim().to_owned(),
                    value: value.trim().to_owned(),
                }),
                _ => {
                    // What follows the key may be a secret.
                    let key = word.split(|c: char| c.is_whitespace() || matches!(c, ':' | '=')).next();
                    let reason = "expected KEY=VALUE";
                    self.errors.push(SettingError::new(&Place::CommandLine, key.unwrap_or(""), reason));
                }
            }
        }
    }

    fn take_environment(&mut self, variables: &BTreeMap<String, String>) {
        let found = environment::read(variables);
        self.given.extend(found.given);
        self.accepted.extend(found.accepted);
        for (name, known) in found.unheard {
            self.errors.push(SettingError::new(&Place::Environment(name), "", format!("expected {known}")));
        }
        for name in found.unknown {
            let place = Place::Environment(name.clone());
            if name.starts_with("NACRE_") {
                self.errors.push(SettingError::new(&place, "", "names no key that this version knows"));
            } else {
                self.warnings.push(Notice::warn_at(&place, "", "names no known key; it has no effect"));
            }
        }
    }

    /// `nacos.home`, as far as it decides where the file is.
    fn home(&self) -> Option<PathBuf> {
        let homes = self.given.iter().filter(|given| given.key == "nacos.home" && !given.value.is_empty());
        // What can't be resolved is told with the other keys.
        let home = homes.max_by_key(|given| given.layer).and_then(|given| self.resolve(&given.value).ok());
        home.filter(|home| !home.is_empty()).map(PathBuf::from)
    }

    fn take_file(
        &mut self,
        candidates: &[PathBuf],
        is_named: bool,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Option<PathBuf> {
        for path in candidates {
            match read(path) {
                Ok(bytes) => {
                    self.take_properties(path, &bytes);
                    return Some(path.clone());
                }
                Err(error) if !is_named && files::is_absent(&error) => {}
                Err(error) => {
                    let place = Place::File { path: path.clone(), line: 0 };
                    let reason = format!("can't read the settings file: {error}");
                    self.errors.push(SettingError::new(&place, "", reason));
                    return None;
                }
            }
        }
        None
    }

    fn take_properties(&mut self, path: &Path, bytes: &[u8]) {
        let (properties, errors) = properties::parse(bytes);
        let place = |line| Place::File { path: path.to_owned(), line };
        for error in errors {
            self.errors.push(SettingError::new(&place(error.line), "", error.reason));
        }
        let mut lines: HashMap<String, usize> = HashMap::new();
        for property in properties {
            if let Some(earlier) = lines.insert(property.key.clone(), property.line) {
                let text = format!("counts instead of line {earlier}, which gives the same key");
                self.warnings.push(Notice::warn_at(&place(property.line), &property.key, &text));
            }
            self.given.push(Given {
                layer: Layer::File,
                place: place(property.line),
                key: property.key,
                value: property.value,
            });
        }
    }

    fn all_names(&self, environment: &BTreeMap<String, String>) -> HashMap<String, String> {
        let mut given: Vec<&Given> = self.given.iter().collect();
        given.sort_by_key(|given| given.layer);
        let variables = environment.iter().map(|(name, value)| (name.clone(), value.clone()));
        variables.chain(given.into_iter().map(|given| (given.key.clone(), given.value.clone()))).collect()
    }

    fn resolve(&self, text: &str) -> Result<String, values::Reason> {
        let resolved = placeholders::resolve(text, &|name| self.names.get(name).cloned())?;
        Ok(resolved.trim().to_owned())
    }

    /// Tells what no row of the table knows, and gathers what has no effect.
    fn classify(&mut self) {
        self.rows = self.given.iter().map(|given| keys::find(&given.key)).collect();
        for (given, row) in self.given.iter().zip(&self.rows) {
            let is_set = given.layer == Layer::CommandLine;
            let is_accepted = match row {
                Some((Key { treatment: Treatment::Accept, .. }, _)) => true,
                Some((Key { treatment: Treatment::AcceptRest, .. }, _)) => {
                    !is_set && !keys::is_slip(&given.key)
                }
                Some(_) => continue,
                None if matches!(given.place, Place::JvmFlag(_))
                    && environment::is_for_the_jvm(&given.key) =>
                {
                    continue;
                }
                None => false,
            };
            if is_accepted {
                self.accepted.push(given.key.clone());
                continue;
            }
            let hint = keys::nearest(&given.key);
            let hint = hint.map_or(String::new(), |name| format!("; did you mean {name}?"));
            if is_set || given.key.starts_with("nacre.") {
                let reason = format!("this version knows no such key{hint}");
                self.errors.push(SettingError::new(&given.place, &given.key, reason));
            } else {
                let text = format!("unknown key; it has no effect{hint}");
                self.warnings.push(Notice::warn_at(&given.place, &given.key, &text));
            }
        }
    }

    /// What counts of one row: of each index the last one of the strongest layer.
    fn winners(&self, row: &Key) -> Vec<(Option<usize>, Given)> {
        let of_row = self.given.iter().zip(&self.rows).filter_map(|(given, found)| {
            let (key, index) = (*found)?;
            std::ptr::eq(key, row).then_some((index, given))
        });
        let of_row: Vec<_> = of_row.collect();
        let Some(strongest) = of_row.iter().map(|(_, given)| given.layer).max() else {
            return Vec::new();
        };
        let mut last: BTreeMap<Option<usize>, Given> = BTreeMap::new();
        for (index, given) in of_row.into_iter().filter(|(_, given)| given.layer == strongest) {
            last.insert(index, given.clone());
        }
        last.into_iter().collect()
    }

    fn apply(&mut self, row: &Key, settings: &mut Settings) {
        let winners = self.winners(row);
        let mut items = Vec::new();
        for (index, given) in &winners {
            if matches!(row.treatment, Treatment::Accept | Treatment::AcceptRest) {
                break;
            }
            let wrong = |key: &str, reason| SettingError::new(&given.place, key, reason);
            let value = match self.resolve(&given.value) {
                // Empty text is "not given", as Spring's conversion has it.
                Ok(value) if value.is_empty() => continue,
                Ok(value) => value,
                Err(reason) => {
                    self.errors.push(wrong(&given.key, reason));
                    continue;
                }
            };
            match &row.treatment {
                Treatment::Honour(apply) => {
                    let outcome = apply(settings, &value);
                    self.errors.extend(outcome.err().map(|reason| wrong(&given.key, reason)));
                }
                Treatment::HonourList(apply) => {
                    let given_items = match index {
                        Some(_) => vec![value],
                        None => values::words(&value).map(str::to_owned).collect(),
                    };
                    // Tried alone first, so that a wrong item is told with its own line.
                    let outcome = apply(&mut Settings::default(), &given_items);
                    self.errors.extend(outcome.err().map(|reason| wrong(&given.key, reason)));
                    items.extend(given_items);
                }
                Treatment::WarnIf(asks, text) if asks(&value) => {
                    self.warnings.push(Notice::warn_at(&given.place, &given.key, text));
                }
                Treatment::RefuseIf(asks, text) if asks(&value) => {
                    self.errors.push(wrong(&format!("{}={value}", given.key), (*text).to_owned()));
                }
                Treatment::RefuseOn(text) => match values::switch(&value) {
                    Ok(true) => {
                        self.errors.push(wrong(&format!("{}={value}", given.key), (*text).to_owned()));
                    }
                    Ok(false) => self.accepted.push(given.key.clone()),
                    Err(reason) => self.errors.push(wrong(&given.key, reason)),
                },
                Treatment::WarnIf(..)
                | Treatment::RefuseIf(..)
                | Treatment::Accept
                | Treatment::AcceptRest => self.accepted.push(given.key.clone()),
            }
        }
        if let Treatment::HonourList(apply) = &row.treatment
            && !items.is_empty()
        {
            // An item that is wrong was told above.
            let _ = apply(settings, &items);
        }
        self.tell_replaced(row, &winners);
    }

    fn tell_replaced(&mut self, row: &Key, winners: &[(Option<usize>, Given)]) {
        let replacing = REPLACED_BY.iter().find(|(old, _)| *old == row.name);
        if let (Some((_, new)), Some((_, given))) = (replacing, winners.first())
            && self.given.iter().any(|given| given.key == *new && !given.value.is_empty())
        {
            let text = format!("has no effect, since {new} is given too");
            self.warnings.push(Notice::warn_at(&given.place, &given.key, &text));
        }
    }

    /// Whoever names the folder of the list wants it read; a slip of the pen must not make a server that serves alone.
    fn check_config_dir(&mut self, sources: &Sources, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) {
        let Some(folder) = &sources.config_dir else { return };
        let reason = match read(folder) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => return,
            Err(error) if files::is_absent(&error) => "there is no such folder".to_owned(),
            Err(error) if error.kind() != io::ErrorKind::Other => error.to_string(),
            _ => "it is no folder".to_owned(),
        };
        let place = Place::File { path: folder.clone(), line: 0 };
        let reason = format!("can't be the folder of cluster.conf (--config-dir): {reason}");
        self.errors.push(SettingError::new(&place, "", reason));
    }

    /// What somebody who named the folder of the list may have hoped for in vain.
    fn tell_unread(
        &mut self,
        settings: &Settings,
        file: Option<&Path>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) {
        let folder = &settings.config_dir;
        let unread = folder.join("application.properties");
        let is_read = file.is_some_and(|file| is_same(file, &unread));
        let has_unread = !is_read && read(&unread).is_ok();
        let is_alone = settings.membership.lookup == Lookup::Standalone;
        let text = match (has_unread, is_alone && settings.membership.standalone != Some(true)) {
            (true, true) => {
                "its application.properties isn't read (name it with --config), and there is no cluster.conf, so \
                nothing names members"
            }
            (true, false) => "its application.properties isn't read: name it with --config",
            (false, true) if !is_read => "holds no cluster.conf, so nothing names members",
            (false, _) => return,
        };
        self.warnings.push(Notice::warn_at(&Place::File { path: folder.clone(), line: 0 }, "", text));
    }

    fn check_mode(&mut self, settings: &mut Settings, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) {
        let path = settings.config_dir.join("cluster.conf");
        let is_alone = settings.membership.standalone == Some(true);
        let names = |bytes: Vec<u8>| mode::names_a_member(&String::from_utf8_lossy(&bytes));
        let (is_there, names_members) = match read(&path).map(names) {
            _ if is_alone => (false, false),
            Ok(names_members) => (true, names_members),
            Err(error) if files::is_absent(&error) => (false, false),
            Err(error) => {
                let place = Place::File { path, line: 0 };
                let reason = format!("can't read the list of members: {error}");
                self.errors.push(SettingError::new(&place, "", reason));
                return;
            }
        };
        let chosen = mode::choose(&settings.membership, names_members);
        self.check_lookup_type(is_alone || chosen.as_ref().is_ok_and(|lookup| *lookup != Lookup::Standalone));
        match chosen {
            Err(refused) => {
                if let Some(given) = self.winner(refused.key) {
                    let key = format!("{}={}", given.key, given.value);
                    self.errors.push(SettingError::new(&given.place, &key, refused.reason));
                }
            }
            Ok(Lookup::Standalone) if is_there => {
                let reason = format!("names no member; {}", mode::WAYS);
                self.errors.push(SettingError::new(&Place::File { path, line: 0 }, "", reason));
            }
            Ok(Lookup::Standalone) if is_alone => {}
            Ok(Lookup::Standalone) => self.refuse_other_lists(settings, &path, read),
            Ok(lookup) => {
                settings.membership.lookup = lookup;
                self.tell_unheard(settings, lookup, names_members);
            }
        }
    }

    /// Nacos takes a lookup type that it doesn't know for none. So does this server, where its files say in another way who the
    /// members are; but a slip of the pen must not make a server that serves alone.
    fn check_lookup_type(&mut self, is_said_otherwise: bool) {
        let Some(given) = self.winner("nacos.core.member.lookup.type") else { return };
        // What can't be resolved has been told.
        let Ok(value) = self.resolve(&given.value) else { return };
        if value.is_empty() || values::lookup_type(&value).is_some() {
            return;
        }
        let reason = format!("expected file or address-server, got {value:?}");
        if is_said_otherwise && given.layer != Layer::CommandLine {
            let text = format!("{reason}; it counts as not given, as in Nacos");
            self.warnings.push(Notice::warn_at(&given.place, &given.key, &text));
        } else {
            self.errors.push(SettingError::new(&given.place, &given.key, reason));
        }
    }

    /// What counts of the row of this name.
    fn winner(&self, name: &str) -> Option<Given> {
        let row = KEYS.iter().find(|key| key.name == name)?;
        self.winners(row).pop().map(|(_, given)| given)
    }

    /// What a node with members is told and doesn't hear.
    fn tell_unheard(&mut self, settings: &Settings, lookup: Lookup, has_cluster_conf: bool) {
        for (key, text) in mode::unheard(&settings.membership, lookup, has_cluster_conf) {
            self.warn_of(key, text);
        }
    }

    /// A half of the members' secret is none, and one that stands in every manual is none either.
    fn check_identity(&mut self, settings: &Settings) {
        let (name, value) = ("nacos.core.auth.server.identity.key", "nacos.core.auth.server.identity.value");
        let cluster = &settings.cluster;
        match (&cluster.identity_key, &cluster.identity_value) {
            (Some(_), None) => self.warn_of(
                name,
                "proves no member without nacos.core.auth.server.identity.value: members are known by their \
                addresses alone",
            ),
            (None, Some(_)) => self.warn_of(
                value,
                "proves no member without nacos.core.auth.server.identity.key: members are known by their \
                addresses alone",
            ),
            (Some(name), Some(secret)) if is_known_identity(name, secret.reveal()) => self.warn_of(
                value,
                "stands in Nacos's manual together with its key, so anybody knows it, passes for a member with it \
                and can change everything that is registered; choose another one, the same on all members",
            ),
            _ => {}
        }
    }

    fn warn_of(&mut self, key: &str, text: &str) {
        if let Some(given) = self.winner(key) {
            self.warnings.push(Notice::warn_at(&given.place, &given.key, text));
        }
    }

    /// Who has laid a list of members into a folder that isn't read wants no server that serves alone.
    fn refuse_other_lists(
        &mut self,
        settings: &Settings,
        heard: &Path,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) {
        let folders = [settings.data_dir.join("conf"), PathBuf::from("./conf")];
        for path in
            folders.map(|folder| folder.join("cluster.conf")).iter().filter(|path| !is_same(path, heard))
        {
            if read(path).is_ok_and(|bytes| mode::names_a_member(&String::from_utf8_lossy(&bytes))) {
                let place = Place::File { path: path.clone(), line: 0 };
                let reason = format!(
                    "isn't read, since the list of members is looked for beside the settings, in {}: move it there, or name \
                     its folder with --config-dir, or let this server serve alone with nacos.standalone=true (MODE=standalone)",
                    heard.display()
                );
                self.errors.push(SettingError::new(&place, "", reason));
            }
        }
    }

    fn finish(mut self, settings: Settings, file: Option<PathBuf>) -> Result<Loaded, Vec<SettingError>> {
        if !self.errors.is_empty() {
            self.errors.sort_by(|a, b| a.place.cmp(&b.place));
            return Err(self.errors);
        }
        let access_log =
            self.winner("server.tomcat.accesslog.enabled").filter(|_| settings.server.access_log);
        let mut notices = self.warnings;
        // Files of Nacos ask for it, and don't mean the log that everything else goes to.
        notices.extend(
            access_log.map(|given| {
                Notice::info_at(&given.place, &given.key, "the log gets a line for each request")
            }),
        );
        self.accepted.sort();
        self.accepted.dedup();
        if !self.accepted.is_empty() {
            notices.push(Notice::info(format!("accepted without effect: {}", self.accepted.join(", "))));
        }
        Ok(Loaded { settings, file, notices })
    }
}

/// Whether two paths are spellings of one, as far as that shows without a look at the disk.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    whole(one) == whole(other)
}

fn is_known_identity(name: &str, secret: &str) -> bool {
    KNOWN_IDENTITIES.iter().any(|(known, text)| name.eq_ignore_ascii_case(known) && secret == *text)
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
