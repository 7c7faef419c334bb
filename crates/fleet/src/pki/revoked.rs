//! The revocation list.
//!
//! A list is used only if this authority signed it. A missing, empty, damaged or foreign list could hide a
//! revocation and is therefore an error.

use super::files::{authority, bad};
use crate::error::FleetError;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

/// The only list in a file, signed by this authority.
pub fn list(path: &Path, ca: &Path) -> Result<CertificateRevocationListDer<'static>, FleetError> {
    let lists = CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect);
    let mut lists: Vec<_> =
        lists.map_err(|error| bad(path, format!("it is no list of revoked certificates: {error}")))?;
    let (Some(der), true) = (lists.pop(), lists.is_empty()) else {
        return Err(bad(path, "it has to hold exactly one list of revoked certificates"));
    };
    {
        let (rest, list) = CertificateRevocationList::from_der(&der)
            .map_err(|error| bad(path, format!("it is no list of revoked certificates: {error}")))?;
        let ca_der = authority(ca)?;
        let (_, ca) = X509Certificate::from_der(&ca_der).map_err(|error| bad(ca, error))?;
        if !rest.is_empty() || list.issuer().as_raw() != ca.subject().as_raw() {
            return Err(bad(path, "it is the list of another authority than that of ca.pem"));
        }
        if list.verify_signature(ca.public_key()).is_err() {
            return Err(bad(path, "its signature is not of the authority of ca.pem"));
        }
    }
    Ok(der)
}

/// Serial numbers of revoked certificates.
pub fn serials(path: &Path, ca: &Path) -> Result<Vec<Vec<u8>>, FleetError> {
    let der = list(path, ca)?;
    let (_, list) = CertificateRevocationList::from_der(&der).map_err(|error| bad(path, error))?;
    Ok(list.iter_revoked_certificates().map(|one| one.raw_serial().to_vec()).collect())
}
