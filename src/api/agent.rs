//! Which client asks, as far as answers depend on it.
//!
//! Source: Nacos 1.4.8 naming module, client info from the `User-Agent`; compat file `instance-agents`.

use http::{HeaderMap, HeaderValue, header};

use super::reply::Refusal;

/// A version of three numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// Reads `1.0.12`, `v`-less: parts around `. - _ / ; :`, leading digits count, a missing third part is 0.
    ///
    /// A text of one part is no version.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(['.', '-', '_', '/', ';', ':']).map(leading_number);
        let first = parts.next()?;
        let second = parts.next()?;
        Some(Self(first, second, parts.next().unwrap_or(0)))
    }
}

fn leading_number(text: &str) -> u32 {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

/// The agent text of a request and what it says.
#[derive(Clone, Copy, Debug)]
pub struct Agent<'a> {
    /// `User-Agent`, or `Client-Version` where that is absent or empty.
    pub text: &'a str,
}

/// Begins the agent of the Java client.
const JAVA: &str = "Nacos-Java-Client";

impl<'a> Agent<'a> {
    /// Reads it from the headers.
    #[must_use]
    pub fn of(headers: &'a HeaderMap) -> Self {
        let text =
            |name: &header::HeaderName| headers.get(name).and_then(readable).filter(|text| !text.is_empty());
        let text = text(&header::USER_AGENT)
            .or_else(|| headers.get("client-version").and_then(readable))
            .unwrap_or_default();
        Self { text }
    }

    /// A peer server, by its own word.
    #[must_use]
    pub fn is_server(self) -> bool {
        self.text.starts_with("Nacos-Server")
    }

    /// What follows the first `:v`; 0.0.0 where there is none.
    ///
    /// # Errors
    /// 500 where what follows is of one part: the reference fails on it.
    pub fn version(self) -> Result<Version, Refusal> {
        match self.text.split_once(":v") {
            None => Ok(Version::default()),
            Some((_, version)) => Version::read(version).ok_or_else(|| {
                Refusal::failed(format_args!("the version of the agent can not be read: {version}"))
            }),
        }
    }

    /// A Java client from 1.0.0 on: it wants grouped names, and its PUT only updates.
    ///
    /// # Errors
    /// As [`Agent::version`], for agents of the Java client only.
    pub fn is_modern_java(self) -> Result<bool, Refusal> {
        Ok(self.text.starts_with(JAVA) && self.version()? >= Version(1, 0, 0))
    }

    /// Whether its name begins so and its version is at least this.
    #[must_use]
    pub fn is_at_least(self, name: &str, version: Version) -> bool {
        self.text.starts_with(name) && self.version().is_ok_and(|own| own >= version)
    }
}

fn readable(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_leniently() {
        assert_eq!(Version::read("1.4.8"), Some(Version(1, 4, 8)));
        assert_eq!(Version::read("1.0"), Some(Version(1, 0, 0)));
        assert_eq!(Version::read("x.y.z"), Some(Version(0, 0, 0)));
        assert_eq!(Version::read("1.4.2-SNAPSHOT"), Some(Version(1, 4, 2)));
        assert_eq!(Version::read("1"), None);
        assert_eq!(Version::read(""), None);
    }

    #[test]
    fn the_java_client_is_modern_from_1_0_0_on() {
        let modern = |text| Agent { text }.is_modern_java().map_err(|_| ());
        assert_eq!(modern("Nacos-Java-Client:v1.4.8"), Ok(true));
        assert_eq!(modern("Nacos-Java-Client:v0.9.1"), Ok(false));
        assert_eq!(modern("Nacos-Java-Client"), Ok(false));
        assert_eq!(modern("Nacos-Go-Client:v1.1.6"), Ok(false));
        assert_eq!(modern("Nacos-Java-Client:v1"), Err(()));
    }
}
