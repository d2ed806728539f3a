//! What a list of members says: lines of `cluster.conf` and of an address server, items of `nacos.member.list`.
//!
//! Pure. As Nacos 1.4.8 reads them, and more lenient where it throws the whole file away for a blank line or a forgotten
//! comma, or keeps a blank as part of an address. The user's spelling is kept, since members of 1.x sort and compare
//! the texts; two spellings of one address (case, a dot at the end, the default port) are the same member here. An IPv4
//! address that is written as an IPv6 one is taken as what it is.
//! Source: Nacos 1.4.8 core module, member parsing, run on such lines.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, Ipv6Addr},
};

use crate::cluster::{Address, member::DEFAULT_PORT};

/// Raft ports of members, as a list tells them. Nothing here speaks raft; operators are shown them, and members told.
pub type RaftPorts = BTreeMap<Address, u16>;

/// A list, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// The members, sorted as text, each once.
    pub members: Vec<Address>,
    /// The raft ports of those that have another one than usual.
    pub raft_ports: RaftPorts,
    /// What an operator should look at although the list counts.
    pub notes: Vec<String>,
}

/// A part of a list that is no member's address; the whole list then doesn't count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text:?} is no address of a member: {reason}")]
pub struct LineError {
    /// Counted from 1.
    pub line: usize,
    /// The part.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// Members of a list at most. A text that names more is taken for something else.
pub const MOST_MEMBERS: usize = 1_000;

/// Characters of a part that an error quotes.
const QUOTED: usize = 80;

impl List {
    /// Reads lines: one or more addresses each, separated by commas; `#` begins a comment.
    ///
    /// # Errors
    /// The first part that is no address.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let parts =
            lines.enumerate().flat_map(|(index, line)| line.split(',').map(move |part| (index + 1, part)));
        Self::of_parts(parts)
    }

    /// Reads the items of a setting; errors count them instead of lines.
    ///
    /// # Errors
    /// The first one that is no address.
    pub fn of_items(items: &[String]) -> Result<Self, LineError> {
        Self::of_parts(items.iter().enumerate().map(|(index, item)| (index + 1, item.as_str())))
    }

    fn of_parts<'a>(parts: impl Iterator<Item = (usize, &'a str)>) -> Result<Self, LineError> {
        let mut list = Self::default();
        let mut identities: Vec<Identity> = Vec::new();
        for (line, part) in parts.map(|(line, part)| (line, part.trim())).filter(|(_, part)| !part.is_empty())
        {
            let wrong = |reason| LineError { line, text: part.chars().take(QUOTED).collect(), reason };
            let Part { address, raft_port, surplus } = read(part).map_err(wrong)?;
            if let Some(surplus) = surplus {
                list.notes.push(format!("line {line}: {surplus:?} behind {address} is ignored"));
            }
            let identity = Identity::of(&address);
            if !identities.contains(&identity) {
                if list.members.len() == MOST_MEMBERS {
                    return Err(wrong("there are too many"));
                }
                identities.push(identity);
                list.raft_ports.extend(raft_port.map(|port| (address.clone(), port)));
                list.members.push(address);
            } else if !list.members.contains(&address) {
                list.notes.push(format!("line {line}: {address} is listed already, in another spelling"));
            }
        }
        list.members.sort_unstable();
        Ok(list)
    }

    /// The member that `own` is another spelling of, as the list spells it.
    #[must_use]
    pub fn spelling_of(&self, own: &Address) -> Option<&Address> {
        let identity = Identity::of(own);
        self.members.iter().find(|member| Identity::of(member) == identity)
    }
}

/// What is the same in all spellings of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    host: String,
    port: u16,
}

impl Identity {
    /// Of an address with or without a port.
    #[must_use]
    pub fn of(address: &Address) -> Self {
        let host = address.host().to_ascii_lowercase();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let ipv6 = bare.and_then(|host| host.parse::<Ipv6Addr>().ok());
        let host = match ipv6 {
            Some(ipv6) => format!("[{ipv6}]"),
            None => host.strip_suffix('.').map(str::to_owned).unwrap_or(host),
        };
        Self { host, port: address.port() }
    }
}

impl Address {
    /// Whether both spell the same address.
    #[must_use]
    pub fn is_spelling_of(&self, other: &Self) -> bool {
        self == other || Identity::of(self) == Identity::of(other)
    }
}

/// What one part of a list says.
struct Part<'a> {
    /// With its port.
    address: Address,
    raft_port: Option<u16>,
    /// What stands behind the port, where something does that means nothing.
    surplus: Option<&'a str>,
}

fn read(part: &str) -> Result<Part<'_>, &'static str> {
    if part.contains("://") {
        return Err("leave out the scheme, HOST:PORT is enough");
    }
    let (address, raft_port) = match part.split_once('?') {
        None => (part, None),
        Some((address, query)) => {
            let raft_port = query.strip_prefix("raft_port=").and_then(|port| port.parse::<u16>().ok());
            (address, Some(raft_port.ok_or("behind ? only raft_port=PORT is known")?))
        }
    };
    let (address, surplus) = read_address(address)?;
    Ok(Part { address, raft_port, surplus })
}

/// An address, with its port; and what stands behind the port.
fn read_address(address: &str) -> Result<(Address, Option<&str>), &'static str> {
    if address.parse::<Ipv6Addr>().is_ok() {
        return Ok((Address::written(&format!("[{address}]:{DEFAULT_PORT}")), None));
    }
    let (host, rest) = match address.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((inner, rest)) => {
            inner.parse::<Ipv6Addr>().map_err(|_| "between [ and ] stands no IPv6 address")?;
            (&address[..inner.len() + 2], rest)
        }
        None => {
            let (host, rest) = address.split_at(address.find(':').unwrap_or(address.len()));
            if host.parse::<Ipv4Addr>().is_err() && !is_name(host) {
                return Err("the host is neither an IP address nor a name");
            }
            (host, rest)
        }
    };
    let mut rest = match rest.strip_prefix(':') {
        Some(rest) => rest.splitn(2, ':'),
        None if rest.is_empty() => return Ok((Address::written(&format!("{host}:{DEFAULT_PORT}")), None)),
        None => return Err("expected a port behind ]"),
    };
    let port: u16 = rest.next().and_then(|port| port.parse().ok()).unwrap_or(0);
    if port == 0 {
        return Err("the port is no number from 1 to 65535");
    }
    Ok((Address::written(&format!("{host}:{port}")), rest.next()))
}

fn is_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str) -> Vec<String> {
        let list = List::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        list.members.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_are_read_as_nacos_reads_them_or_better() {
        for (text, expected) in [
            ("10.0.0.1:8848\n10.0.0.2\n", &["10.0.0.1:8848", "10.0.0.2:8848"][..]),
            ("# comment\n # comment\n10.0.0.1:8848 # text, too", &["10.0.0.1:8848"]),
            ("\n10.0.0.1:8848\r\n\r\n10.0.0.2:8848\t\r\n10.0.0.1:8848", &["10.0.0.1:8848", "10.0.0.2:8848"]),
            ("10.0.0.1:8848,10.0.0.2:8849,", &["10.0.0.1:8848", "10.0.0.2:8849"]),
            ("a:1, b:1", &["a:1", "b:1"]),
            (",a:1", &["a:1"]),
            ("   \na:1,,b:1", &["a:1", "b:1"]),
            ("10.0.0.1:8848?raft_port=7848", &["10.0.0.1:8848"]),
            ("::1", &["[::1]:8848"]),
            (
                "127.0.91.3:8848\n[::ffff:127.0.91.3]:8848\n[::FFFF:7f00:5b03]\n::ffff:127.0.91.3",
                &["127.0.91.3:8848"],
            ),
            ("[::ffff:10.0.0.1]:8849", &["10.0.0.1:8849"]),
            ("[2001:db8::1]:8848\n[::1]", &["[2001:db8::1]:8848", "[::1]:8848"]),
            ("nacos-0.nacos:1", &["nacos-0.nacos:1"]),
            ("\u{feff}10.0.0.1", &["10.0.0.1:8848"]),
            ("10.0.0.9:1\n10.0.0.10:1", &["10.0.0.10:1", "10.0.0.9:1"]),
            ("a:080", &["a:80"]),
            ("", &[]),
            ("# nobody", &[]),
        ] {
            assert_eq!(members(text), expected, "{text:?}");
            assert_eq!(List::parse(text).unwrap().notes, [""; 0], "{text:?}");
        }
    }

    #[test]
    fn a_raft_port_is_kept_with_its_member() {
        let list = List::parse("a:1?raft_port=7, b:1?raft_port=65535\nc:1\nA:1?raft_port=8").unwrap();
        let expected = [("a:1", 7), ("b:1", 65_535)].map(|(member, port)| (Address::new(member), port));
        assert_eq!(list.raft_ports, RaftPorts::from(expected));
    }

    #[test]
    fn the_example_is_a_list_and_one_for_members_of_1_x_too() {
        let example = include_str!("../../../conf/cluster.conf.example");
        let List { members, raft_ports, notes } = List::parse(example).unwrap();
        assert_eq!(members, ["10.0.0.1:8848", "10.0.0.2:8848", "10.0.0.3:8848"].map(Address::new));
        assert!(
            notes.is_empty() && raft_ports.is_empty() && example.lines().all(|line| !line.trim().is_empty())
        );
    }

    #[test]
    fn what_is_no_address_is_told_with_its_line() {
        for (text, part, reason) in [
            ("10.0.0.1:abc", "10.0.0.1:abc", "the port is no number from 1 to 65535"),
            ("a:1;b:2", "a:1;b:2", "the port is no number from 1 to 65535"),
            ("http://a:1", "http://a:1", "leave out the scheme, HOST:PORT is enough"),
            ("a:0", "a:0", "the port is no number from 1 to 65535"),
            ("a:65536", "a:65536", "the port is no number from 1 to 65535"),
            ("a:", "a:", "the port is no number from 1 to 65535"),
            ("a b", "a b", "the host is neither an IP address nor a name"),
            ("a:1?x=1", "a:1?x=1", "behind ? only raft_port=PORT is known"),
            ("[::g]:1", "[::g]:1", "between [ and ] stands no IPv6 address"),
            ("[::1]x", "[::1]x", "expected a port behind ]"),
            ("<html>", "<html>", "the host is neither an IP address nor a name"),
        ] {
            let error = List::parse(&format!("ok:1\n{text}")).unwrap_err();
            assert_eq!(error, LineError { line: 2, text: part.to_owned(), reason });
        }
        let long = "x ".repeat(1_000);
        assert_eq!(List::parse(&long).unwrap_err().text.len(), QUOTED);
    }

    #[test]
    fn what_is_odd_and_counts_is_noted() {
        let list = List::parse("10.0.0.1:8848:9\nNacos-0.:1\nnacos-0:1").unwrap();
        assert_eq!(list.members, [Address::new("10.0.0.1:8848"), Address::new("Nacos-0.:1")]);
        assert_eq!(
            list.notes,
            [
                "line 1: \"9\" behind 10.0.0.1:8848 is ignored",
                "line 3: nacos-0:1 is listed already, in another spelling"
            ]
        );
    }

    #[test]
    fn the_own_address_is_found_in_any_spelling() {
        let list = List::parse("Nacos-0.Nacos.\n[2001:DB8:0::1]:1\n10.0.0.1").unwrap();
        for (own, spelling) in [
            ("nacos-0.nacos:8848", Some("Nacos-0.Nacos.:8848")),
            ("[2001:db8::1]:1", Some("[2001:DB8:0::1]:1")),
            ("10.0.0.1:8848", Some("10.0.0.1:8848")),
            ("10.0.0.1:8849", None),
            ("0.0.0.1:8848", None),
            ("110.0.0.1:8848", None),
        ] {
            let found = list.spelling_of(&Address::new(own)).map(Address::as_str);
            assert_eq!(found, spelling, "{own}");
        }
    }

    #[test]
    fn spellings_of_an_address_are_the_same_and_other_names_are_not() {
        for (one, other, expected) in [
            ("Nacos-0.Nacos.:8848", "nacos-0.nacos:8848", true),
            ("[2001:DB8:0::1]:1", "[2001:db8::1]:1", true),
            ("127.0.0.1:8848", "localhost:8848", false),
            ("127.0.0.1:8848", "127.0.0.1:8849", false),
        ] {
            assert_eq!(Address::new(one).is_spelling_of(&Address::new(other)), expected, "{one} {other}");
        }
    }

    #[test]
    fn items_of_a_setting_are_read_alike_and_their_number_is_bounded() {
        let items = |count: usize| -> Vec<String> { (1..=count).map(|n| format!("a:{n}")).collect() };
        assert_eq!(List::of_items(&items(1_000)).unwrap().members.len(), 1_000);
        let error = List::of_items(&items(1_001)).unwrap_err();
        assert_eq!((error.line, error.reason), (1_001, "there are too many"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r"[\[\]:?#,\r\na-c0-9. \u{feff}é-]{0,40}") {
            if let Ok(list) = List::parse(&text) {
                for member in &list.members {
                    assert_eq!(list.spelling_of(member), Some(member));
                }
            }
        }
    }
}
