//! A private certificate authority in a folder, and what TLS needs of it.
//!
//! | file | what | goes to |
//! |---|---|---|
//! | `ca.pem`, `ca.key` | the authority | the certificate everywhere, the key nowhere |
//! | `crl.pem` | who is let in no longer | every agent |
//! | `host-NAME.pem`, `host-NAME.key` | an agent | that host |
//! | `viewer-NAME.pem`, `viewer-NAME.key` | a viewer | that person |

use crate::error::FleetError;
use crate::grants::Grants;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};
use x509_parser::revocation_list::CertificateRevocationList;

/// How long a list of revoked certificates is good for. Agents do not refuse to work with an old one.
const LIST_IS_GOOD_FOR: Duration = Duration::from_hours(24 * 3650);

/// When a certificate is good.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// From this instant.
    pub from: SystemTime,
    /// Until this one.
    pub to: SystemTime,
}

impl Validity {
    /// From now on for so many days; from a day ago, because clocks differ.
    pub fn days(days: u32) -> Self {
        let now = SystemTime::now();
        let day = Duration::from_hours(24);
        Validity { from: now - day, to: now + day * days }
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its certificate's name, or the user it runs as.
    pub name: String,
    /// What it may see.
    pub grants: Grants,
}

/// A folder of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at this path, which may have yet to be made.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Folder(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the authority if there is none; returns whether it made one.
    pub fn init(&self, validity: Validity) -> Result<bool, FleetError> {
        let (cert, key) = (self.file("ca.pem"), self.file("ca.key"));
        if cert.exists() && key.exists() {
            return Ok(false);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(|e| bad(&self.0, e))?;
        let failed = |error: rcgen::Error| FleetError::Certificate {
            name: "the authority".to_owned(),
            because: error.to_string(),
        };
        let mut params = params("magnet-scope authority", validity);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pair = KeyPair::generate().map_err(failed)?;
        let made = params.self_signed(&pair).map_err(failed)?;
        self.write("ca.key", &pair.serialize_pem(), 0o600)?;
        self.write("ca.pem", &made.pem(), 0o644)?;
        self.write_list(&[])?;
        Ok(true)
    }

    /// Makes a certificate for an agent that is reached by these names and addresses, the first of which names its files.
    pub fn host(&self, names: &[String], validity: Validity) -> Result<PathBuf, FleetError> {
        let name = names.first().map_or("", String::as_str);
        let mut params = params(name, validity);
        for name in names {
            let san = match name.parse() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName(name.clone().try_into().map_err(|_| FleetError::Certificate {
                    name: name.clone(),
                    because: "it is neither a host's name nor an address".to_owned(),
                })?),
            };
            params.subject_alt_names.push(san);
        }
        // A relay is a viewer of the agents behind it.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue("host", name, params)
    }

    /// Makes a certificate for a viewer.
    pub fn viewer(&self, name: &str, grants: &Grants, validity: Validity) -> Result<PathBuf, FleetError> {
        let mut params = params(name, validity);
        let uri = grants.to_string();
        let failed =
            |_| FleetError::Certificate { name: name.to_owned(), because: "its limits are no URI".into() };
        params.subject_alt_names.push(SanType::URI(uri.try_into().map_err(failed)?));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue("viewer", name, params)
    }

    fn issue(&self, kind: &str, name: &str, mut params: CertificateParams) -> Result<PathBuf, FleetError> {
        let refuse =
            |because: &str| FleetError::Certificate { name: name.to_owned(), because: because.to_owned() };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || name.starts_with('.') {
            return Err(refuse("a name is letters, digits and `-_.:`, at most 64 of them"));
        }
        let file = format!("{kind}-{name}");
        if self.file(&format!("{file}.pem")).exists() {
            return Err(refuse("there is one already; revoke it and remove its files to make another"));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let failed = |error: rcgen::Error| refuse(&error.to_string());
        let pair = KeyPair::generate().map_err(failed)?;
        let made: Certificate = params.signed_by(&pair, &self.issuer()?).map_err(failed)?;
        self.write(&format!("{file}.key"), &pair.serialize_pem(), 0o600)?;
        self.write(&format!("{file}.pem"), &made.pem(), 0o644)
    }

    /// Lets the holder of this certificate in no longer: `viewer-NAME` or `host-NAME`. Agents look at the list when somebody
    /// comes, so it has to be copied to them.
    pub fn revoke(&self, identity: &str) -> Result<(), FleetError> {
        let path = self.file(&format!("{identity}.pem"));
        let der = CertificateDer::from_pem_file(&path).map_err(|error| bad(&path, error))?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| bad(&path, error))?;
        let mut revoked = self.revoked()?;
        let serial = certificate.raw_serial().to_vec();
        if !revoked.contains(&serial) {
            revoked.push(serial);
        }
        self.write_list(&revoked).map(|_| ())
    }

    /// Serial numbers of certificates that are good no longer.
    fn revoked(&self) -> Result<Vec<Vec<u8>>, FleetError> {
        let path = self.file("crl.pem");
        let der = CertificateRevocationListDer::from_pem_file(&path).map_err(|error| bad(&path, error))?;
        let (_, list) = CertificateRevocationList::from_der(&der).map_err(|error| bad(&path, error))?;
        Ok(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect())
    }

    fn write_list(&self, revoked: &[Vec<u8>]) -> Result<PathBuf, FleetError> {
        let now = SystemTime::now();
        let one = |serial: &Vec<u8>| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + LIST_IS_GOOD_FOR).into(),
            crl_number: SerialNumber::from(since_epoch.as_secs()),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(one).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let path = self.file("crl.pem");
        let signed = list.signed_by(&self.issuer()?).map_err(|error| bad(&path, error))?;
        let text = signed.pem().map_err(|error| bad(&path, error))?;
        // Agents may be reading it.
        self.write("crl.pem.tmp", &text, 0o644)?;
        fs::rename(self.file("crl.pem.tmp"), &path).map_err(|error| bad(&path, error))?;
        Ok(path)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, FleetError> {
        let (cert, key) = (self.file("ca.pem"), self.file("ca.key"));
        let read = |path: &Path| fs::read_to_string(path).map_err(|error| bad(path, error));
        let pair = KeyPair::from_pem(&read(&key)?).map_err(|error| bad(&key, error))?;
        Issuer::from_ca_cert_pem(&read(&cert)?, pair).map_err(|error| bad(&cert, error))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with these rights, whatever was there.
    fn write(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, FleetError> {
        let path = self.file(name);
        // One that cannot be removed is an error below, where a new one is made.
        let _ = fs::remove_file(&path);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| bad(&path, error))?;
        Ok(path)
    }

    /// The only certificate of this kind (`host`, `viewer`) here, without its ending.
    pub fn only(&self, kind: &str) -> Result<String, FleetError> {
        let entries = fs::read_dir(&self.0).map_err(|error| bad(&self.0, error))?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let of_kind = |name: &String| name.starts_with(kind) && name.as_bytes().get(kind.len()) == Some(&b'-');
        let mut found: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".pem").map(str::to_owned)).filter(of_kind).collect();
        found.sort();
        match (found.len(), found.pop()) {
            (1, Some(only)) => Ok(only),
            (_, None) => Err(bad(&self.0, format!("there is no {kind} certificate"))),
            (_, Some(last)) => {
                found.push(last);
                Err(FleetError::Several { path: self.0.clone(), names: found })
            }
        }
    }

    fn identity(
        &self,
        identity: &str,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), FleetError> {
        let (cert, key) = (self.file(&format!("{identity}.pem")), self.file(&format!("{identity}.key")));
        let chain = CertificateDer::pem_file_iter(&cert).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| bad(&cert, error))?;
        Ok((chain, PrivateKeyDer::from_pem_file(&key).map_err(|error| bad(&key, error))?))
    }

    fn authority(&self) -> Result<Arc<RootCertStore>, FleetError> {
        let path = self.file("ca.pem");
        let mut roots = RootCertStore::empty();
        let der = CertificateDer::from_pem_file(&path).map_err(|error| bad(&path, error))?;
        roots.add(der).map_err(|error| bad(&path, error))?;
        Ok(Arc::new(roots))
    }

    /// An agent's end of a connection: nobody is let in without a certificate of this authority that was not revoked.
    pub fn agent(&self, identity: &str) -> Result<ServerConfig, FleetError> {
        let path = self.file("crl.pem");
        let lists = CertificateRevocationListDer::pem_file_iter(&path).and_then(Iterator::collect);
        let lists: Vec<_> = lists.map_err(|error| bad(&path, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.authority()?, provider.clone());
        let verifier = verifier.with_crls(lists).build().map_err(|error| bad(&path, error))?;
        let (chain, key) = self.identity(identity)?;
        let config =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.map_err(|error| bad(&self.0, error))?.with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(chain, key).map_err(|error| bad(&self.0, error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// A viewer's end of a connection.
    pub fn connects(&self, identity: &str) -> Result<ClientConfig, FleetError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.map_err(|error| bad(&self.0, error))?.with_root_certificates(self.authority()?);
        let (chain, key) = self.identity(identity)?;
        let mut config = config.with_client_auth_cert(chain, key).map_err(|error| bad(&self.0, error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }
}

impl Peer {
    /// Whose certificate this is.
    ///
    /// # Errors
    /// It is none, or it says something of its holder's limits that is not understood.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let name = parsed.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        let names = names.iter().flat_map(|names| &names.value.general_names);
        let uris = names.filter_map(|name| if let GeneralName::URI(uri) = name { Some(*uri) } else { None });
        let grants = Grants::of_names(uris).map_err(|error| error.to_string())?;
        Ok(Peer { name: name.unwrap_or("nameless").to_owned(), grants })
    }
}

fn params(name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = validity.from.into();
    params.not_after = validity.to.into();
    params
}

fn bad(path: &Path, because: impl std::fmt::Display) -> FleetError {
    FleetError::Key { path: path.to_path_buf(), because: because.to_string() }
}
