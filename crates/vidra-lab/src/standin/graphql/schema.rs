//! The part of Infrahub's schema that the stand-in has: types, fields, arguments.

/// A field: its name, its type as written in the schema, its arguments with their types.
pub(super) struct FieldType {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) arguments: &'static [(&'static str, &'static str)],
}

const fn field(name: &'static str, kind: &'static str) -> FieldType {
    FieldType {
        name,
        kind,
        arguments: &[],
    }
}

const fn call(
    name: &'static str,
    kind: &'static str,
    arguments: &'static [(&'static str, &'static str)],
) -> FieldType {
    FieldType {
        name,
        kind,
        arguments,
    }
}

const QUERY: &[FieldType] = &[
    call("CoreArtifact", "PaginatedCoreArtifact!", ARTIFACT_FILTERS),
    call(
        "CoreArtifactDefinition",
        "PaginatedCoreArtifactDefinition!",
        DEFINITION_FILTERS,
    ),
    call(
        "CoreGraphQLQuery",
        "PaginatedCoreGraphQLQuery!",
        QUERY_FILTERS,
    ),
    call(
        "Branch",
        "[Branch!]!",
        &[("ids", "[ID]"), ("name", "String")],
    ),
    call("InfrahubEvent", "Events!", EVENT_FILTERS),
    field("InfrahubInfo", "Info!"),
];

const ARTIFACT_FILTERS: &[(&str, &str)] = &[
    ("offset", "Int"),
    ("limit", "Int"),
    ("ids", "[ID]"),
    ("name__value", "String"),
    ("name__values", "[String]"),
    ("status__value", "String"),
    ("status__values", "[String]"),
    ("content_type__value", "String"),
    ("content_type__values", "[String]"),
    ("checksum__value", "String"),
    ("checksum__values", "[String]"),
    ("storage_id__value", "String"),
    ("storage_id__values", "[String]"),
    ("object__ids", "[ID]"),
    ("definition__ids", "[ID]"),
    ("definition__name__value", "String"),
    ("definition__name__values", "[String]"),
];

const DEFINITION_FILTERS: &[(&str, &str)] = &[
    ("offset", "Int"),
    ("limit", "Int"),
    ("ids", "[ID]"),
    ("name__value", "String"),
    ("name__values", "[String]"),
    ("artifact_name__value", "String"),
    ("artifact_name__values", "[String]"),
];

const QUERY_FILTERS: &[(&str, &str)] = &[
    ("offset", "Int"),
    ("limit", "Int"),
    ("ids", "[ID]"),
    ("name__value", "String"),
    ("name__values", "[String]"),
];

const EVENT_FILTERS: &[(&str, &str)] = &[
    ("limit", "Int"),
    ("offset", "Int"),
    ("event_type", "[String!]"),
    ("primary_node__ids", "[String!]"),
    ("related_node__ids", "[String!]"),
    ("since", "DateTime"),
    ("until", "DateTime"),
    ("branches", "[String!]"),
    ("ids", "[String!]"),
    ("order", "EventSortOrder"),
];

const MUTATION: &[FieldType] = &[
    call(
        "InfrahubAccountTokenCreate",
        "InfrahubAccountTokenCreate",
        &[
            ("data", "InfrahubAccountTokenCreateInput!"),
            ("context", "ContextInput"),
        ],
    ),
    call(
        "InfrahubAccountTokenDelete",
        "InfrahubAccountTokenDelete",
        &[
            ("data", "InfrahubAccountTokenDeleteInput!"),
            ("context", "ContextInput"),
        ],
    ),
];

const ARTIFACT: &[FieldType] = &[
    field("id", "String!"),
    field("display_label", "String"),
    field("name", "TextAttribute"),
    field("status", "TextAttribute"),
    field("content_type", "TextAttribute"),
    field("checksum", "TextAttribute"),
    field("storage_id", "TextAttribute"),
    field("parameters", "JSONAttribute"),
    field("object", "NestedEdgedCoreArtifactTarget!"),
    field("definition", "NestedEdgedCoreArtifactDefinition!"),
];

const ATTRIBUTE: &[FieldType] = &[
    field("id", "String"),
    field("value", "String"),
    field("is_default", "Boolean"),
    field("is_protected", "Boolean"),
    field("updated_at", "DateTime"),
];

const TARGET: &[FieldType] = &[
    field("id", "String!"),
    field("display_label", "String"),
    field("hfid", "[String!]"),
];

const WEBSERVER: &[FieldType] = &[
    field("id", "String!"),
    field("display_label", "String"),
    field("hfid", "[String!]"),
    field("name", "TextAttribute"),
];

const DEFINITION: &[FieldType] = &[
    field("id", "String!"),
    field("display_label", "String"),
    field("hfid", "[String!]"),
    field("name", "TextAttribute"),
    field("artifact_name", "TextAttribute"),
    field("content_type", "TextAttribute"),
];

const STORED_QUERY: &[FieldType] = &[
    field("id", "String!"),
    field("display_label", "String"),
    field("name", "TextAttribute"),
    field("query", "TextAttribute"),
];

const BRANCH: &[FieldType] = &[
    field("id", "String!"),
    field("name", "String!"),
    field("is_default", "Boolean"),
    field("sync_with_git", "Boolean"),
    field("has_schema_changes", "Boolean"),
    field("branched_from", "String"),
    field("created_at", "String"),
];

const EVENT: &[FieldType] = &[
    field("id", "String!"),
    field("event", "String!"),
    field("branch", "String"),
    field("account_id", "String"),
    field("occurred_at", "DateTime!"),
    field("level", "Int!"),
    field("has_children", "Boolean!"),
    field("parent_id", "String"),
    field("primary_node", "RelatedNode"),
    field("related_nodes", "[RelatedNode!]!"),
];

const ARTIFACT_EVENT: &[FieldType] = &[
    field("id", "String!"),
    field("event", "String!"),
    field("branch", "String"),
    field("account_id", "String"),
    field("occurred_at", "DateTime!"),
    field("level", "Int!"),
    field("has_children", "Boolean!"),
    field("parent_id", "String"),
    field("primary_node", "RelatedNode"),
    field("related_nodes", "[RelatedNode!]!"),
    field("checksum", "String!"),
    field("checksum_previous", "String"),
    field("storage_id", "String!"),
    field("storage_id_previous", "String"),
    field("artifact_definition_id", "String!"),
];

/// The fields of a type; `None` for scalars and unknown types.
pub(super) fn fields(type_name: &str) -> Option<&'static [FieldType]> {
    Some(match type_name {
        "Query" => QUERY,
        "Mutation" => MUTATION,
        "PaginatedCoreArtifact" => {
            &const {
                [
                    field("count", "Int!"),
                    field("edges", "[EdgedCoreArtifact!]!"),
                ]
            }
        }
        "EdgedCoreArtifact" => &const { [field("node", "CoreArtifact")] },
        "PaginatedCoreArtifactDefinition" => {
            &const {
                [
                    field("count", "Int!"),
                    field("edges", "[EdgedCoreArtifactDefinition!]!"),
                ]
            }
        }
        "EdgedCoreArtifactDefinition" | "NestedEdgedCoreArtifactDefinition" => {
            &const { [field("node", "CoreArtifactDefinition")] }
        }
        "PaginatedCoreGraphQLQuery" => {
            &const {
                [
                    field("count", "Int!"),
                    field("edges", "[EdgedCoreGraphQLQuery!]!"),
                ]
            }
        }
        "EdgedCoreGraphQLQuery" => &const { [field("node", "CoreGraphQLQuery")] },
        "NestedEdgedCoreArtifactTarget" => &const { [field("node", "CoreArtifactTarget")] },
        "CoreArtifact" => ARTIFACT,
        "CoreArtifactDefinition" => DEFINITION,
        "CoreGraphQLQuery" => STORED_QUERY,
        "CoreArtifactTarget" | "CoreNode" => TARGET,
        "KubernetesWebserver" => WEBSERVER,
        "TextAttribute" | "JSONAttribute" => ATTRIBUTE,
        "Branch" => BRANCH,
        "Events" => &const { [field("count", "Int!"), field("edges", "[EventNodes!]!")] },
        "EventNodes" => &const { [field("node", "EventNodeInterface")] },
        "EventNodeInterface" | "StandardEvent" | "NodeMutatedEvent" => EVENT,
        "ArtifactEvent" => ARTIFACT_EVENT,
        "RelatedNode" => &const { [field("id", "String!"), field("kind", "String!")] },
        "Info" => {
            &const {
                [
                    field("deployment_id", "String!"),
                    field("version", "String!"),
                ]
            }
        }
        "InfrahubAccountTokenCreate" => {
            &const {
                [
                    field("ok", "Boolean"),
                    field("object", "InfrahubAccountTokenType"),
                ]
            }
        }
        "InfrahubAccountTokenType" => {
            &const { [field("id", "String!"), field("token", "ValueType")] }
        }
        "ValueType" => &const { [field("value", "String!")] },
        "InfrahubAccountTokenDelete" => &const { [field("ok", "Boolean")] },
        _ => return None,
    })
}

/// The members of an input object.
pub(super) fn input(type_name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match type_name {
        "InfrahubAccountTokenCreateInput" => &[("name", "String"), ("expiration", "String")],
        "InfrahubAccountTokenDeleteInput" => &[("id", "String!")],
        _ => return None,
    })
}

/// `[EdgedCoreArtifact!]!` without its list and non-null marks.
pub(super) fn named(kind: &str) -> &str {
    kind.trim_matches(['[', ']', '!'])
}

/// Whether a fragment on `condition` applies to a value of type `actual`.
pub(super) fn applies(condition: &str, actual: &str) -> bool {
    condition == actual
        || match condition {
            "CoreNode" => actual.starts_with("Core") || actual.starts_with("Kubernetes"),
            "CoreArtifactTarget" => !actual.starts_with("Core"),
            "EventNodeInterface" => actual.ends_with("Event"),
            _ => false,
        }
}
