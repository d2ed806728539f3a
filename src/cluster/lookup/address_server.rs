//! The list that a web server hands out: `GET http://DOMAIN:PORTURL`, lines as in `cluster.conf`.
//!
//! Source: Nacos 1.4.8 core module, address server lookup; clients of 1.x ask the same kind of server for their endpoint.

use std::time::Duration;

use bytes::Bytes;
use http::Request;

use super::list::List;
use crate::{
    base::client::{Client, ClientSettings},
    config::{AddressServerSettings, Settings},
};

/// From an answer to the next request.
pub const PAUSE: Duration = Duration::from_secs(5);
/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(3);
/// Bytes that an answer may have.
const MAX_ANSWER: usize = 1 << 20;

/// The server, and how it has been answering.
#[derive(Clone, Debug)]
pub struct AddressServer {
    client: Client,
    host: String,
    path: String,
    max_failures: u32,
    failures: u32,
}

/// What operators are shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressServerShown {
    /// Fewer failures in a row than `maxHealthCheckFailCount` (`addressServerHealth`).
    pub is_healthy: bool,
    /// What is asked (`addressServerUrl`).
    pub url: String,
    /// Where clients would ask for their environment (`envIdUrl`).
    pub env_id_url: String,
    /// Failures in a row (`addressServerFailCount`).
    pub failures: u32,
}

impl AddressServer {
    /// The server of the settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let said: &AddressServerSettings = &settings.membership.address_server;
        let path = said.url.clone();
        let path = path.unwrap_or_else(|| format!("{}/serverlist", settings.server.context_path.as_str()));
        Self {
            client: Client::new(ClientSettings::default()),
            host: format!("{}:{}", said.domain(), said.port),
            path,
            max_failures: said.max_failures,
            failures: 0,
        }
    }

    /// What is asked, for a person.
    #[must_use]
    pub fn place(&self) -> String {
        format!("http://{}{}", self.host, self.path)
    }

    /// For operators.
    #[must_use]
    pub fn shown(&self) -> AddressServerShown {
        AddressServerShown {
            is_healthy: self.failures < self.max_failures,
            url: self.place(),
            env_id_url: format!("http://{}/env", self.host),
            failures: self.failures,
        }
    }

    /// Asks for the list.
    ///
    /// # Errors
    /// Why there is none: no answer, another status than 200, or no list in it. It counts as a failure.
    pub async fn read(&mut self) -> Result<List, String> {
        let read = self.ask().await;
        self.failures = if read.is_ok() { 0 } else { self.failures.saturating_add(1) };
        read
    }

    async fn ask(&self) -> Result<List, String> {
        let request =
            Request::get(self.path.as_str()).body(Bytes::new()).map_err(|error| error.to_string())?;
        let answer = self.client.send(&self.host, request, LIMIT, MAX_ANSWER).await;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status() != 200 {
            return Err(format!("it answered {}", answer.status()));
        }
        List::parse(&String::from_utf8_lossy(answer.body())).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers each connection with the next of these; gives the port and the heads of the requests.
    async fn server(answers: Vec<&'static str>) -> (u16, tokio::task::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.10.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut heads = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                heads.push(String::from_utf8_lossy(&head[..length]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            heads
        });
        (port, serving)
    }

    fn asked(port: u16, url: Option<&str>) -> AddressServer {
        let mut settings = Settings::default();
        settings.membership.address_server = AddressServerSettings {
            domain: Some("127.0.10.1".into()),
            port,
            url: url.map(str::to_owned),
            max_failures: 2,
            ..AddressServerSettings::default()
        };
        AddressServer::new(&settings)
    }

    #[tokio::test]
    async fn an_answer_is_a_list_and_all_else_a_failure() {
        let (port, serving) = server(vec![
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 23\r\n\r\n10.0.0.2:8848\n10.0.0.1\n",
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n<html>",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\na:1",
        ])
        .await;
        let mut server = asked(port, None);
        let list = server.read().await.unwrap();
        assert_eq!(list, List::parse("10.0.0.1:8848,10.0.0.2:8848").unwrap());
        assert_eq!(server.read().await.unwrap_err(), "it answered 404 Not Found");
        assert!(server.shown().is_healthy);
        assert!(server.read().await.unwrap_err().starts_with("line 1: \"<html>\""));
        let shown = AddressServerShown {
            is_healthy: false,
            url: format!("http://127.0.10.1:{port}/nacos/serverlist"),
            env_id_url: format!("http://127.0.10.1:{port}/env"),
            failures: 2,
        };
        assert_eq!(server.shown(), shown);
        assert!(server.read().await.is_ok());
        assert!(server.shown().is_healthy && server.shown().failures == 0);
        let heads = serving.await.unwrap();
        assert!(heads[0].starts_with("GET /nacos/serverlist HTTP/1.1\r\n"), "{heads:?}");
    }

    #[tokio::test]
    async fn the_path_is_a_setting_and_nobody_there_a_failure() {
        let (port, serving) =
            server(vec!["HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na"]).await;
        let mut server = asked(port, Some("/l?env=x"));
        assert!(server.read().await.is_ok());
        assert!(serving.await.unwrap()[0].starts_with("GET /l?env=x HTTP/1.1\r\n"));
        assert!(server.read().await.is_err());
        assert_eq!(server.shown().failures, 1);
    }
}
