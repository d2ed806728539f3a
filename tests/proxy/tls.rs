//! TLS on either side.

use std::{fs, sync::Arc, time::Duration};

use nacre::{
    config::ProxySettings,
    proxy::{Certificates, trusted},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};

use super::support::{Front, RULES, front, front_with, instance, said, status};

/// A folder with a certificate for each name, and its authority; that of `*.NAME` is called `z.NAME`, and so isn't the first.
pub fn certificates(folder: &std::path::Path, names: &[&str]) {
    for name in names {
        let file = name.replace('*', "z");
        let made = rcgen::generate_simple_self_signed([(*name).to_owned()]).unwrap();
        fs::write(folder.join(format!("{file}.crt")), made.cert.pem()).unwrap();
        fs::write(folder.join(format!("{file}.key")), made.signing_key.serialize_pem()).unwrap();
    }
}

/// Asks over TLS for a host; the answer, or why there is none.
async fn over_tls(front: &Front, store: RootCertStore, name: &'static str) -> Result<String, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(store)
        .with_no_client_auth();
    let stream = TcpStream::connect(front.address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from(name).unwrap(), stream).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    Ok(String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn tls_has_a_certificate_for_each_name_and_takes_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &["*.c.example", "a.example", "b.example"]);
    let held = Arc::new(Certificates::read(folder.path()).unwrap());
    let front =
        front_with(RULES, ProxySettings::default(), Some(Arc::clone(&held)), RootCertStore::empty()).await;
    let teller =
        instance(|request| async move { said(request.headers()["x-forwarded-proto"].as_bytes().to_vec()) })
            .await;
    front.register(teller.address);
    let store = |name: &str| trusted(Some(&folder.path().join(format!("{name}.crt")))).unwrap();
    for name in ["a.example", "b.example"] {
        let answer = over_tls(&front, store(name), name).await.unwrap();
        assert!(status(&answer) == 200 && answer.ends_with("https"), "{answer}");
    }
    for (name, is_for) in
        [("x.c.example", true), ("X.C.Example", true), ("x.y.c.example", false), ("c.example", false)]
    {
        assert_eq!(over_tls(&front, store("z.c.example"), name).await.is_ok(), is_for, "{name}");
    }
    assert!(over_tls(&front, store("a.example"), "b.example").await.is_err());
    let watching = tokio::spawn(Arc::clone(&held).watch(front.stopped.clone()));
    let before = store("a.example");
    // A key that isn't the certificate's changes nothing.
    let key = fs::read(folder.path().join("a.example.key")).unwrap();
    fs::copy(folder.path().join("b.example.key"), folder.path().join("a.example.key")).unwrap();
    assert!(Certificates::read(folder.path()).is_err());
    assert!(over_tls(&front, before.clone(), "a.example").await.is_ok());
    fs::write(folder.path().join("a.example.key"), key).unwrap();
    certificates(folder.path(), &["a.example"]);
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while over_tls(&front, store("a.example"), "a.example").await.is_err() {
        assert!(tokio::time::Instant::now() < end, "the new certificate isn't taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(over_tls(&front, before, "a.example").await.is_err());
    front.stopped.cancel();
    watching.await.unwrap();
}

#[tokio::test]
async fn instances_with_tls_must_show_a_certificate_that_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path(), &["orders.internal"]);
    let store = || trusted(Some(&folder.path().join("orders.internal.crt"))).unwrap();
    for (protocol, there) in [("https", "HTTP/1.1"), ("h2", "HTTP/2.0")] {
        let held = Arc::new(Certificates::read(folder.path()).unwrap());
        // Another proxy is the instance.
        let behind = front(RULES).await;
        let teller = instance(|request| async move { said(format!("{:?}", request.version())) }).await;
        behind.register(teller.address);
        let with_tls = front_with(RULES, ProxySettings::default(), Some(held), RootCertStore::empty()).await;
        with_tls.register(teller.address);
        for (trust, name, expected) in [
            (store(), "orders.internal", 200),
            (store(), "other.internal", 502),
            (RootCertStore::empty(), "orders.internal", 502),
        ] {
            let rules = format!("{RULES}protocol = \"{protocol}\"\ntls-name = \"{name}\"\n");
            let front = front_with(&rules, ProxySettings::default(), None, trust).await;
            front.register(with_tls.address);
            let answer = front.get("/").await;
            assert_eq!(status(&answer), expected, "{protocol} {there} {name}: {answer}");
        }
    }
}
