//! Responses out of bytes: as many as are complete, and what is left over. No I/O.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// Headers by name in lower case; those of the same name joined by a comma.
pub type Headers = Vec<(String, String)>;

/// One thing that came back over a raw connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawItem {
    /// A whole response.
    Response {
        /// E.g. 200.
        status: u16,
        /// All but `date`.
        headers: Headers,
        /// Decoded.
        body: String,
    },
    /// Bytes that are no whole response.
    Garbage(String),
}

/// Where a body ends.
enum End {
    None,
    Length(usize),
    Chunks,
    Close,
}

/// The head of a response.
pub struct Head {
    pub status: u16,
    pub headers: Headers,
    /// Length of the head with its empty line.
    pub len: usize,
}

impl Head {
    /// The head at the beginning of `data`; `None` if it isn't complete or isn't a head.
    pub fn read(data: &[u8]) -> Option<Self> {
        let end = data.windows(4).position(|four| four == b"\r\n\r\n")?;
        let text = latin1(&data[..end]);
        let mut lines = text.split("\r\n");
        let mut first = lines.next()?.splitn(3, ' ');
        first.next().filter(|protocol| protocol.starts_with("HTTP/"))?;
        let status = first.next()?.parse().ok()?;
        let mut headers = Headers::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            add(&mut headers, &name.trim().to_lowercase(), value.trim());
        }
        Some(Self { status, headers, len: end + 4 })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn end(&self, head_only: bool) -> End {
        if head_only || self.status < 200 || matches!(self.status, 204 | 304) {
            End::None
        } else if self.get("transfer-encoding").is_some_and(|how| how.contains("chunked")) {
            End::Chunks
        } else {
            match self.get("content-length").map(str::parse) {
                Some(Ok(length)) => End::Length(length),
                _ => End::Close,
            }
        }
    }

    /// Body and its length on the wire, if `rest` (what follows the head) has all of it. A body that only the
    /// end of the connection ends is what is there so far.
    pub fn body(&self, rest: &[u8], head_only: bool) -> Option<(Vec<u8>, usize)> {
        match self.end(head_only) {
            End::None => Some((Vec::new(), 0)),
            End::Length(length) => Some((rest.get(..length)?.to_vec(), length)),
            End::Chunks => dechunk(rest),
            End::Close => Some((rest.to_vec(), rest.len())),
        }
    }

    /// Whether only the end of the connection ends the body.
    pub fn ends_by_close(&self, head_only: bool) -> bool {
        matches!(self.end(head_only), End::Close)
    }

    /// The body as text, decompressed if the headers say so.
    pub fn decode(&self, body: &[u8]) -> std::io::Result<String> {
        if self.get("content-encoding") == Some("gzip") && !body.is_empty() {
            Ok(text(&gunzip(body)?))
        } else {
            Ok(text(body))
        }
    }
}

/// Splits what a connection gave into responses.
pub fn split(mut data: &[u8], head_only: bool) -> Vec<RawItem> {
    let mut items = Vec::new();
    while !data.is_empty() {
        let Some((item, length)) = one(data, head_only) else {
            items.push(RawItem::Garbage(String::from_utf8_lossy(data).into_owned()));
            break;
        };
        items.push(item);
        data = &data[length..];
    }
    items
}

fn one(data: &[u8], head_only: bool) -> Option<(RawItem, usize)> {
    let head = Head::read(data)?;
    let (body, length) = head.body(&data[head.len..], head_only)?;
    let body = head.decode(&body).unwrap_or_else(|error| format!("<not gzip: {error}>"));
    let mut headers = head.headers;
    headers.retain(|(name, _)| name != "date");
    Some((RawItem::Response { status: head.status, headers, body }, head.len + length))
}

fn dechunk(mut rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    let whole = rest.len();
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = latin1(&rest[..line]);
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        rest = &rest[line + 2..];
        let end = size.checked_add(2)?;
        body.extend_from_slice(rest.get(..end)?.get(..size)?);
        rest = &rest[end..];
        if size == 0 {
            return Some((body, whole - rest.len()));
        }
    }
}

fn add(headers: &mut Headers, name: &str, value: &str) {
    match headers.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = format!("{old}, {value}"),
        None => headers.push((name.to_owned(), value.to_owned())),
    }
}

/// Every byte as the character of that number: how headers are read, and raw pieces written.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// UTF-8, with bytes that are none of it shown as such (never equal to anything recorded).
pub fn text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            out.push_str(&format!("<byte {byte:02x}>"));
        }
    }
    out
}

/// Decompresses.
///
/// # Errors
/// If it isn't gzip, or what is in it is longer than [`MAX_BYTES`].
pub fn gunzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    MultiGzDecoder::new(bytes).take(MAX_BYTES as u64 + 1).read_to_end(&mut out)?;
    if out.len() > MAX_BYTES {
        return Err(std::io::Error::other(format!("it is longer than {MAX_BYTES} bytes, unpacked")));
    }
    Ok(out)
}

/// More than this isn't read from one answer (or decompressed out of one).
pub const MAX_BYTES: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> RawItem {
        RawItem::Response { status, headers: Vec::new(), body: body.to_owned() }
    }

    #[test]
    fn pipelined_responses_are_told_apart() {
        let data = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 204\r\n\r\n";
        let items = split(data, false);
        assert_eq!(items[0], response(100, ""));
        let headers = vec![("content-length".to_owned(), "2".to_owned())];
        assert_eq!(items[1], RawItem::Response { status: 200, headers, body: "ok".to_owned() });
        assert_eq!(items[2], response(204, ""));
    }

    #[test]
    fn chunks_are_joined_and_half_a_response_is_garbage() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = format!("{head}3;x=y\r\nabc\r\n1\r\nd\r\n0\r\n\r\n");
        assert!(
            matches!(&split(whole.as_bytes(), false)[..], [RawItem::Response { body, .. }] if body == "abcd")
        );
        let half = &whole[..whole.len() - 4];
        assert!(matches!(&split(half.as_bytes(), false)[..], [RawItem::Garbage(_)]));
        let short = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok";
        assert!(matches!(&split(short, false)[..], [RawItem::Garbage(_)]));
    }

    #[test]
    fn what_unpacks_to_too_much_is_no_text_of_which_the_end_is_missing() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::copy(&mut std::io::repeat(b'a').take(MAX_BYTES as u64 + 1), &mut encoder).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(gunzip(&packed).unwrap_err().to_string().contains("longer than"), "{}", packed.len());
    }

    #[test]
    fn headers_of_one_name_are_joined_and_bad_bytes_are_visible() {
        let head = Head::read(b"HTTP/1.1 200 OK\r\nVary: a\r\nvary:b\r\n\r\n").unwrap();
        assert_eq!(head.headers, [("vary".to_owned(), "a, b".to_owned())]);
        assert_eq!(text(b"a\xffb"), "a<byte ff>b");
    }
}
