//! The CRD files, generated from the types.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{InfrahubSync, VidraResource, columns, names};

/// Why the files could not be written or compared.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The definition cannot be written as YAML.
    #[error("render the CRD {name:?} as YAML")]
    Render {
        /// Name of the CRD.
        name: String,
        /// What the serializer said.
        #[source]
        source: Box<serde_saphyr::ser::Error>,
    },
    /// A file cannot be read or written.
    #[error("access {path:?}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

/// The definitions of both kinds, as they are installed.
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        finish(InfrahubSync::crd(), &columns::infrahub_sync()),
        finish(VidraResource::crd(), &columns::vidra_resource()),
    ]
}

/// File name and content of both definitions.
pub fn crd_yaml() -> Result<Vec<(String, String)>, CrdError> {
    crds().iter().map(render).collect()
}

/// Writes both files into a directory and returns their paths.
pub fn write(directory: &Path) -> Result<Vec<PathBuf>, CrdError> {
    let write_one = |(name, content): (String, String)| {
        let path = directory.join(name);
        match fs::write(&path, content) {
            Ok(()) => Ok(path),
            Err(source) => Err(CrdError::File { path, source }),
        }
    };
    crd_yaml()?.into_iter().map(write_one).collect()
}

/// The files in a directory that do not have the generated content; empty when all is well.
pub fn stale(directory: &Path) -> Result<Vec<PathBuf>, CrdError> {
    let mut stale = Vec::new();
    for (name, content) in crd_yaml()? {
        let path = directory.join(name);
        match fs::read_to_string(&path) {
            Ok(found) if found == content => {}
            Ok(_) => stale.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => stale.push(path),
            Err(source) => return Err(CrdError::File { path, source }),
        }
    }
    Ok(stale)
}

fn render(crd: &CustomResourceDefinition) -> Result<(String, String), CrdError> {
    let plural = &crd.spec.names.plural;
    let yaml = serde_saphyr::to_string(crd).map_err(|source| CrdError::Render {
        name: plural.clone(),
        source: Box::new(source),
    })?;
    let header = "# Generated from crates/vidra-api by `cargo crds`. Do not edit.\n---\n";
    Ok((
        format!("{}_{plural}.yaml", names::GROUP),
        format!("{header}{yaml}"),
    ))
}

/// Adds the printer columns, and takes out what the derive macro adds and users should not get.
fn finish(
    mut crd: CustomResourceDefinition,
    columns: &[CustomResourceColumnDefinition],
) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.to_vec());
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            tidy_schema(schema);
        }
    }
    crd
}

/// Removes `default`, because it is written into the users' objects, `nullable`, so that a `null`
/// counts as absent, as it does with the Go operator's CRDs, and `title`, a name from the code.
fn tidy_schema(schema: &mut JSONSchemaProps) {
    schema.title = None;
    schema.default = None;
    schema.nullable = None;
    for property in schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
    {
        tidy_schema(property);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => tidy_schema(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(tidy_schema),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy_schema(values);
    }
}
