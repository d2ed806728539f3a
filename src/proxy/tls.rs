//! Certificates of the proxy's own hosts: a folder of pairs, read again when it changes.

use std::{
    collections::HashMap,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::{ClientHello, ParsedCertificate, ResolvesServerCert},
        sign::CertifiedKey,
    },
};
use tokio_util::sync::CancellationToken;

use crate::{base::watched_file::Settling, config};

/// From one look at the folder to the next.
const PAUSE: Duration = Duration::from_secs(2);
/// Pairs in a folder at most.
const MOST_PAIRS: usize = 1_000;

/// Why a folder has no certificates that can be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// It, or a file of it, can't be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// What can't.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file isn't what its name says.
    #[error("{}: {reason}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// There are more pairs than may be.
    #[error("{}: there are more than {MOST_PAIRS} certificates in it", .0.display())]
    TooMany(PathBuf),
    /// There is no pair.
    #[error("{}: there is no NAME.crt with a NAME.key beside it", .0.display())]
    Empty(PathBuf),
}

/// The certificates as they are now.
pub struct Certificates {
    folder: PathBuf,
    acceptor: ArcSwap<ServerConfig>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Certificates({})", self.folder.display())
    }
}

/// Bytes of the files of a folder, by name.
type Files = Vec<(PathBuf, Vec<u8>, Vec<u8>)>;

impl Certificates {
    /// Reads those of a folder.
    ///
    /// # Errors
    /// The folder has none, or one that can't be used.
    pub fn read(folder: &Path) -> Result<Self, TlsError> {
        let config = server_config(folder, &read(folder)?)?;
        Ok(Self { folder: folder.to_owned(), acceptor: ArcSwap::from_pointee(config) })
    }

    /// Takes connections with the certificates as they are now.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.acceptor.load_full())
    }

    /// Reads the folder again and again; what can't be used changes nothing, and is told once.
    pub async fn watch(self: Arc<Self>, stopped: CancellationToken) {
        let mut settling = Settling::default();
        let first = self.look().await;
        settling.start(first);
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            let Some(files) = settling.seen(self.look().await) else { continue };
            let taken = files
                .and_then(|files| server_config(&self.folder, &files).map_err(|error| error.to_string()));
            match taken {
                Ok(config) => {
                    self.acceptor.store(Arc::new(config));
                    tracing::info!(folder = %self.folder.display(), "certificates of the proxy read anew");
                }
                Err(error) => {
                    tracing::warn!(error, "these certificates of the proxy don't count, the former ones do");
                }
            }
        }
    }

    async fn look(&self) -> Result<Files, String> {
        let folder = self.folder.clone();
        let looked =
            tokio::task::spawn_blocking(move || read(&folder).map_err(|error| error.to_string())).await;
        looked.unwrap_or_else(|error| Err(error.to_string()))
    }
}

fn read(folder: &Path) -> Result<Files, TlsError> {
    let unread = |path: &Path| {
        let path = path.to_owned();
        |source| TlsError::Read { path, source }
    };
    let mut certificates = Vec::new();
    for entry in fs::read_dir(folder).map_err(unread(folder))? {
        let path = entry.map_err(unread(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "crt") {
            certificates.push(path);
        }
    }
    if certificates.len() > MOST_PAIRS {
        return Err(TlsError::TooMany(folder.to_owned()));
    }
    certificates.sort_unstable();
    let mut files = Files::new();
    for path in certificates {
        let key = path.with_extension("key");
        let certificate = config::read_regular(&path).map_err(unread(&path))?;
        let key = config::read_regular(&key).map_err(unread(&key))?;
        files.push((path, certificate, key));
    }
    if files.is_empty() { Err(TlsError::Empty(folder.to_owned())) } else { Ok(files) }
}

fn server_config(folder: &Path, files: &Files) -> Result<ServerConfig, TlsError> {
    let keys = files.iter().map(|(path, certificate, key)| pair(path, certificate, key));
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err(TlsError::Empty(folder.to_owned()));
    }
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring knows the usual versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ByName::new(keys)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn pair(path: &Path, certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |path: PathBuf, reason: String| TlsError::Content { path, reason };
    let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| wrong(path.to_owned(), error.to_string()))?;
    let Some(first) = chain.first() else {
        return Err(wrong(path.to_owned(), "there is no certificate in it".into()));
    };
    ParsedCertificate::try_from(first).map_err(|error| wrong(path.to_owned(), error.to_string()))?;
    let of_key = path.with_extension("key");
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(of_key.clone(), error.to_string()))?;
    let key =
        ring::sign::any_supported_type(&key).map_err(|error| wrong(of_key.clone(), error.to_string()))?;
    let pair = CertifiedKey::new(chain, key);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(pair))
        }
        Err(_) => Err(wrong(of_key, "it isn't the key of the certificate beside it".into())),
    }
}

/// Takes the certificate for the name that a client asks for, else the first.
#[derive(Debug)]
struct ByName {
    pairs: Vec<Arc<CertifiedKey>>,
    /// Names of the certificates, in lower case, `*.example.org` as such; of two with the same name, the first.
    names: HashMap<Box<str>, usize>,
}

impl ByName {
    fn new(pairs: Vec<Arc<CertifiedKey>>) -> Self {
        let mut names = HashMap::new();
        for (at, pair) in pairs.iter().enumerate() {
            let Some(first) = pair.cert.first() else { continue };
            // It has been read before.
            let Ok(certificate) = webpki::EndEntityCert::try_from(first) else { continue };
            for name in certificate.valid_dns_names() {
                names.entry(name.to_ascii_lowercase().into()).or_insert(at);
            }
        }
        Self { pairs, names }
    }

    fn of(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let below = || self.names.get(&*format!("*.{}", name.split_once('.')?.1));
        let at = self.names.get(&*name).or_else(below)?;
        self.pairs.get(*at)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.of(name));
        named.or(self.pairs.first()).cloned()
    }
}

/// The authorities that certificates of instances may be of: those in `file`, or those that the system trusts.
///
/// # Errors
/// The file can't be read, or has none.
pub fn trusted(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let Some(file) = file else {
        // A system without any is in order where no instance has TLS.
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
        return Ok(store);
    };
    let wrong = |reason: String| TlsError::Content { path: file.to_owned(), reason };
    let bytes =
        config::read_regular(file).map_err(|source| TlsError::Read { path: file.to_owned(), source })?;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        store.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if store.is_empty() { Err(wrong("there is no certificate in it".into())) } else { Ok(store) }
}
