//! What may come back: the recorded answer, or the answers that a statement allows.

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::text::{ClassText, RawText, ResponseText, StatusText};

/// An answer that is right.
#[derive(Debug, Clone)]
pub enum Expected {
    /// To a request.
    Response(ExpectedResponse),
    /// A datagram.
    Datagram {
        /// Whether it was compressed.
        gzip: bool,
        /// Its text.
        body: String,
    },
    /// No datagram.
    Nothing,
    /// The text came, or went.
    Reached,
    /// What came back over a raw connection.
    Raw {
        /// In order.
        responses: Vec<ExpectedRaw>,
        /// Whether the server closed the connection.
        closed: bool,
    },
}

/// An HTTP response that is right.
#[derive(Debug, Clone)]
pub struct ExpectedResponse {
    /// Which status.
    pub status: Status,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Decoded.
    pub body: String,
}

/// One item of a raw answer.
#[derive(Debug, Clone)]
pub enum ExpectedRaw {
    /// A response.
    Response(ExpectedResponse),
    /// What was no complete response.
    Garbage(String),
}

/// Which statuses are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(Vec<(u16, u16)>);

impl Status {
    /// Exactly this one.
    pub fn one(status: u16) -> Self {
        Self(vec![(status, status)])
    }

    /// Whether `status` is right.
    pub fn accepts(&self, status: u16) -> bool {
        self.0.iter().any(|(from, to)| (*from..=*to).contains(&status))
    }

    /// Whether all of them are refusals.
    pub fn refuses(&self) -> bool {
        self.0.iter().all(|(from, _)| *from >= 400)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            out.write_str(if at == 0 { "" } else { " or " })?;
            if from == to { write!(out, "{from}")? } else { write!(out, "{from} to {to}")? }
        }
        Ok(())
    }
}

impl TryFrom<&StatusText> for Status {
    type Error = anyhow::Error;

    fn try_from(text: &StatusText) -> Result<Self> {
        let items = match text {
            StatusText::One(status) => return Ok(Self::one(*status)),
            StatusText::OneOf(items) => items,
        };
        ensure!(!items.is_empty(), "a list of statuses is empty");
        let range = |item: &ClassText| match item {
            ClassText::Number(status) => Ok((*status, *status)),
            ClassText::Class(class) => match class.as_bytes() {
                [digit @ b'1'..=b'5', b'x', b'x'] => {
                    let from = u16::from(digit - b'0') * 100;
                    Ok((from, from + 99))
                }
                _ => Err(anyhow!("{class:?} is no class of statuses such as 4xx")),
            },
        };
        Ok(Self(items.iter().map(range).collect::<Result<_>>()?))
    }
}

/// An answer as the file states it.
pub fn expected(text: ResponseText) -> Result<Expected> {
    if let Some(items) = text.raw {
        let closed = text.closed.context("a raw response needs closed")?;
        let responses = items.into_iter().map(raw_of).collect::<Result<_>>()?;
        return Ok(Expected::Raw { responses, closed });
    }
    if let Some(reached) = text.reached {
        ensure!(reached, "a recorded wait that wasn't reached says nothing");
        return Ok(Expected::Reached);
    }
    if text.nothing == Some(true) {
        return Ok(Expected::Nothing);
    }
    if let Some(gzip) = text.gzip {
        return Ok(Expected::Datagram { gzip, body: text.body });
    }
    let status = text.status.context("a response needs a status")?;
    Ok(Expected::Response(response_of(&status, text.headers.0, text.body)?))
}

fn raw_of(text: RawText) -> Result<ExpectedRaw> {
    match (text.garbage, text.status) {
        (Some(garbage), _) => Ok(ExpectedRaw::Garbage(garbage)),
        (None, Some(status)) => Ok(ExpectedRaw::Response(response_of(&status, text.headers.0, text.body)?)),
        (None, None) => bail!("an item of a raw response needs a status or garbage"),
    }
}

fn response_of(
    status: &StatusText,
    headers: Vec<(String, String)>,
    body: String,
) -> Result<ExpectedResponse> {
    Ok(ExpectedResponse { status: Status::try_from(status)?, headers, body })
}
