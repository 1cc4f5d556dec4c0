//! What every namespace has from the start: the account `default` and the certificate that pods trust (spec K 21).

use super::{Action, Plan, Target, name_of};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use std::collections::BTreeMap;

const CERTIFICATES: &str = "kube-root-ca.crt";
const CERTIFICATES_KEY: &str = "ca.crt";

/// A namespace, its account `default` and its config map `kube-root-ca.crt` if they exist, and the CA in PEM.
#[derive(Debug)]
pub struct Observed<'a> {
    pub namespace: &'a Namespace,
    pub account: Option<&'a ServiceAccount>,
    pub certificates: Option<&'a ConfigMap>,
    pub authority: &'a str,
}

pub fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    if seen.namespace.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let named = |name: &str| ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(name_of(&seen.namespace.metadata).to_owned()),
        ..ObjectMeta::default()
    };
    if seen.account.is_none() {
        let account = ServiceAccount { metadata: named("default"), ..ServiceAccount::default() };
        plan.write(None, &account);
    }
    let data = BTreeMap::from([(CERTIFICATES_KEY.to_owned(), seen.authority.to_owned())]);
    match seen.certificates {
        None => {
            let mut metadata = named(CERTIFICATES);
            let note = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints \
                        such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
                        distributions of Kubernetes clusters.";
            metadata.annotations = Some(BTreeMap::from([("kubernetes.io/description".to_owned(), note.to_owned())]));
            let certificates = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            plan.write(None, &certificates);
        }
        Some(certificates) if certificates.data.as_ref() != Some(&data) => {
            // Keys that somebody added are removed: pods mount this map as a whole.
            let stale = certificates.data.iter().flatten().map(|(key, _)| (key.clone(), json!(null)));
            let mut patch: serde_json::Map<_, _> = stale.collect();
            patch.insert(CERTIFICATES_KEY.to_owned(), json!(seen.authority));
            plan.actions.push(Action::Patch { target: Target::of(certificates), patch: json!({ "data": patch }) });
        }
        Some(_) => {}
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;

    fn planned(world: &World) -> Plan {
        let (accounts, maps) = (world.list::<ServiceAccount>(), world.list::<ConfigMap>());
        let namespace = &world.get("n");
        plan(&Observed { namespace, account: accounts.first(), certificates: maps.first(), authority: "PEM" })
    }

    #[test]
    fn a_namespace_gets_its_account_and_certificate_and_keeps_them() {
        let mut world = World::default();
        world.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
        world.settle(planned);
        assert_eq!(world.names("ServiceAccount"), ["default"]);
        assert_eq!(world.raw("ConfigMap", CERTIFICATES)["data"], json!({"ca.crt": "PEM"}));
        world.edit("ConfigMap", CERTIFICATES, json!({"data": {"ca.crt": "old", "extra": "x"}}));
        world.settle(planned);
        assert_eq!(world.raw("ConfigMap", CERTIFICATES)["data"], json!({"ca.crt": "PEM"}));
        world.edit(
            "Namespace",
            "n",
            json!({"metadata": {"deletionTimestamp": world.now().to_string(), "finalizers": ["x"]}}),
        );
        world.delete("ServiceAccount", "default");
        assert_eq!(planned(&world), Plan::default());
    }
}
