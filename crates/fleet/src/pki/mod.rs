//! A private certificate authority in a folder, and its TLS configuration.
//!
//! | file | content | goes to |
//! |---|---|---|
//! | `ca.pem`, `ca.key` | the authority | the certificate everywhere, the key nowhere |
//! | `crl.pem` | revoked certificates | every agent |
//! | `host-NAME.pem`, `host-NAME.key` | an agent | that host |
//! | `viewer-NAME.pem`, `viewer-NAME.key` | a viewer | that person |
//! | `relay-NAME.pem`, `relay-NAME.key` | a relay | that host |
//!
//! A host's certificate permits no reading of an agent. Reading needs exactly one permission in the
//! certificate's names: a viewer's or a relay's.

mod files;
mod permitted;
mod revoked;

use crate::error::FleetError;
use crate::grants::{Grants, RELAY};
use files::{KEY_MODE, bad, replace};
use permitted::Permitted;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Validity of a revocation list. Agents also accept an expired one.
const LIST_IS_GOOD_FOR: Duration = Duration::from_hours(24 * 3650);

/// Validity of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// Start.
    pub from: SystemTime,
    /// End.
    pub to: SystemTime,
}

impl Validity {
    /// Valid from a day ago, because clocks differ, for `days` days from now.
    pub fn days(days: u32) -> Self {
        let now = SystemTime::now();
        let day = Duration::from_hours(24);
        Validity { from: now - day, to: now + day * days }
    }
}

/// The authenticated peer of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The name in its certificate, or the user of its process.
    pub name: String,
    /// Its grants.
    pub grants: Grants,
}

/// A folder of certificates and keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder at this path, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Folder(path.into())
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the authority if there is none; returns true if it made one.
    pub fn init(&self, validity: Validity) -> Result<bool, FleetError> {
        let (cert, key) = (self.file("ca.pem"), self.file("ca.key"));
        if cert.exists() && key.exists() {
            return Ok(false);
        }
        if cert.exists() {
            // The folder of a host or a viewer: a second authority would lock it out.
            return Err(bad(
                &key,
                "it is not here, but ca.pem is: certificates are made where the authority is",
            ));
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
        self.write("ca.key", &pair.serialize_pem(), KEY_MODE)?;
        self.write("ca.pem", &made.pem(), 0o644)?;
        self.write_list(&[])?;
        Ok(true)
    }

    /// Makes a certificate for an agent with these names and addresses; the first names the files. The
    /// certificate permits no reading of agents. A bus with client certificates accepts it.
    pub fn host(&self, names: &[String], validity: Validity) -> Result<PathBuf, FleetError> {
        self.server("host", names, Vec::new(), validity)
    }

    /// Makes a certificate for a relay with these names and addresses: a client of agents, and a server for its
    /// viewers.
    pub fn relay(&self, names: &[String], validity: Validity) -> Result<PathBuf, FleetError> {
        self.server("relay", names, vec![uri(RELAY)?], validity)
    }

    fn server(
        &self,
        kind: &str,
        names: &[String],
        permissions: Vec<SanType>,
        validity: Validity,
    ) -> Result<PathBuf, FleetError> {
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
        params.subject_alt_names.extend(permissions);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(kind, name, params)
    }

    /// Makes a certificate for a viewer.
    pub fn viewer(&self, name: &str, grants: &Grants, validity: Validity) -> Result<PathBuf, FleetError> {
        let mut params = params(name, validity);
        params.subject_alt_names.push(uri(&grants.to_string())?);
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
        // No certificate outlives its authority.
        params.not_after = params.not_after.min(self.authority_ends()?.into());
        let made: Certificate = params.signed_by(&pair, &self.issuer()?).map_err(failed)?;
        self.write(&format!("{file}.key"), &pair.serialize_pem(), KEY_MODE)?;
        self.write(&format!("{file}.pem"), &made.pem(), 0o644)
    }

    /// Revokes a certificate: `viewer-NAME`, `host-NAME` or `relay-NAME`. Agents read the list at each
    /// connection, so it must be copied to them.
    pub fn revoke(&self, identity: &str) -> Result<(), FleetError> {
        let path = self.file(&format!("{identity}.pem"));
        let der = CertificateDer::from_pem_file(&path).map_err(|error| bad(&path, error))?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|error| bad(&path, error))?;
        // The lock prevents lost updates by concurrent revocations.
        let key = self.file("ca.key");
        let lock = File::open(&key).map_err(|error| bad(&key, error))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| bad(&key, error))?;
        let mut revoked = revoked::serials(&self.file("crl.pem"), &self.file("ca.pem"))?;
        let serial = certificate.raw_serial().to_vec();
        if !revoked.contains(&serial) {
            revoked.push(serial);
        }
        self.write_list(&revoked).map(|_| ())
    }

    /// End of the authority's validity.
    fn authority_ends(&self) -> Result<SystemTime, FleetError> {
        let path = self.file("ca.pem");
        let der = files::authority(&path)?;
        let (_, ca) = X509Certificate::from_der(&der).map_err(|error| bad(&path, error))?;
        let seconds = u64::try_from(ca.validity().not_after.timestamp()).unwrap_or(0);
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
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
        self.write("crl.pem", &text, 0o644)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, FleetError> {
        let (cert, key) = (self.file("ca.pem"), self.file("ca.key"));
        let pair = KeyPair::from_pem(&files::key_text(&key)?).map_err(|error| bad(&key, error))?;
        let text = fs::read_to_string(&cert).map_err(|error| bad(&cert, error))?;
        Issuer::from_ca_cert_pem(&text, pair).map_err(|error| bad(&cert, error))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file with this mode and replaces an existing one.
    fn write(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf, FleetError> {
        let path = self.file(name);
        replace(&path, text, mode)?;
        Ok(path)
    }

    /// The only certificate of this kind (`host`, `viewer`, `relay`) here, without its extension.
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
        Ok((chain, files::key(&key)?))
    }

    fn authority(&self) -> Result<Arc<RootCertStore>, FleetError> {
        let path = self.file("ca.pem");
        let mut roots = RootCertStore::empty();
        roots.add(files::authority(&path)?).map_err(|error| bad(&path, error))?;
        Ok(Arc::new(roots))
    }

    /// True if the authority's key is here, which belongs on no serving host.
    pub fn has_authority_key(&self) -> bool {
        self.file("ca.key").exists()
    }

    /// The revocation list, signed by this authority.
    fn revoked(&self) -> Result<CertificateRevocationListDer<'static>, FleetError> {
        revoked::list(&self.file("crl.pem"), &self.file("ca.pem"))
    }

    /// TLS configuration of an agent: clients need a valid certificate of this authority with a permission.
    pub fn agent(&self, identity: &str) -> Result<ServerConfig, FleetError> {
        let path = self.file("crl.pem");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(self.authority()?, provider.clone());
        let verifier = verifier.with_crls([self.revoked()?]).build().map_err(|error| bad(&path, error))?;
        let (chain, key) = self.identity(identity)?;
        let config =
            ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.map_err(|error| bad(&self.0, error))?;
        let config = config.with_client_cert_verifier(Arc::new(Permitted(verifier)));
        let mut config = config.with_single_cert(chain, key).map_err(|error| bad(&self.0, error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// TLS configuration of a viewer. If a revocation list is present, it applies to hosts too.
    pub fn connects(&self, identity: &str) -> Result<ClientConfig, FleetError> {
        let path = self.file("crl.pem");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut verifier = WebPkiServerVerifier::builder_with_provider(self.authority()?, provider.clone());
        if path.exists() {
            verifier = verifier.with_crls([self.revoked()?]);
        }
        let verifier = verifier.build().map_err(|error| bad(&path, error))?;
        let config =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let config = config.map_err(|error| bad(&self.0, error))?.with_webpki_verifier(verifier);
        let (chain, key) = self.identity(identity)?;
        let mut config = config.with_client_auth_cert(chain, key).map_err(|error| bad(&self.0, error))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(config)
    }

    /// The grants in this identity's own certificate.
    pub fn grants(&self, identity: &str) -> Result<Grants, FleetError> {
        let path = self.file(&format!("{identity}.pem"));
        let der = CertificateDer::from_pem_file(&path).map_err(|error| bad(&path, error))?;
        Peer::of(&der).map(|peer| peer.grants).map_err(|because| bad(&path, because))
    }
}

impl Peer {
    /// The peer of a certificate.
    ///
    /// # Errors
    /// The certificate is invalid, or it has no permission, several, or an invalid one.
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

/// A certificate name that states a permission.
fn uri(text: &str) -> Result<SanType, FleetError> {
    let failed = |_| FleetError::Certificate { name: text.to_owned(), because: "its limits are no URI".into() };
    Ok(SanType::URI(text.to_owned().try_into().map_err(failed)?))
}
