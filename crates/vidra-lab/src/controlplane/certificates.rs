//! The certificate authority of one control plane.

use std::net::{IpAddr, Ipv4Addr};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// Why a certificate could not be issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A key could not be generated.
    #[error("cannot generate a private key")]
    GenerateKey(#[source] rcgen::Error),
    /// A certificate could not be signed.
    #[error("cannot sign the certificate of {subject:?}")]
    Sign {
        /// Whose certificate.
        subject: String,
        /// What the library said.
        #[source]
        source: rcgen::Error,
    },
    /// A client certificate carries its groups as organisations, of which the library writes two.
    #[error("user {user:?} has {count} groups, a client certificate here carries at most two")]
    TooManyGroups {
        /// The user.
        user: String,
        /// How many groups were asked for.
        count: usize,
    },
}

/// A certificate and its key, both PEM.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Signs everything in one control plane and dies with it.
pub(super) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::GenerateKey)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("vidra-lab-ca", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params
            .self_signed(&key)
            .map_err(|source| CertificateError::Sign {
                subject: "vidra-lab-ca".to_owned(),
                source,
            })?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    pub(super) fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub(super) fn der(&self) -> Vec<u8> {
        self.certificate.der().to_vec()
    }

    /// What the API server shows to its clients.
    pub(super) fn serving(&self) -> Result<Identity, CertificateError> {
        let mut params = CertificateParams::new(vec![
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])
        .map_err(|source| sign_error("kube-apiserver", source))?;
        params.distinguished_name = name("kube-apiserver", &[]);
        let loopback = SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
        params.subject_alt_names.push(loopback);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue("kube-apiserver", params)
    }

    /// What a client shows to the API server: the user is the common name, a group an organisation.
    pub(super) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, CertificateError> {
        if groups.len() > 2 {
            let count = groups.len();
            return Err(CertificateError::TooManyGroups {
                user: user.to_owned(),
                count,
            });
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, groups);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(user, params)
    }

    fn issue(
        &self,
        subject: &str,
        mut params: CertificateParams,
    ) -> Result<Identity, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::GenerateKey)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(|source| sign_error(subject, source))?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// A key pair to sign service account tokens with, private and public PEM.
pub(super) fn signing_key() -> Result<(String, String), CertificateError> {
    let key = KeyPair::generate().map_err(CertificateError::GenerateKey)?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn sign_error(subject: &str, source: rcgen::Error) -> CertificateError {
    CertificateError::Sign {
        subject: subject.to_owned(),
        source,
    }
}

/// The library keeps one value per attribute *type*; the organisation by its number is a second
/// type to it and the same attribute in the certificate.
fn name(common_name: &str, organisations: &[&str]) -> DistinguishedName {
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(vec![2, 5, 4, 10]),
    ];
    let mut name = DistinguishedName::new();
    for (kind, organisation) in kinds.into_iter().zip(organisations) {
        name.push(kind, *organisation);
    }
    name.push(DnType::CommonName, common_name);
    name
}
