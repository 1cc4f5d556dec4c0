//! The values that fields of built-in types may have, where these are fixed: `kubectl explain` lists them (K-OAPI-4).

/// Type without `io.k8s.api.`, field, and its values in order.
#[rustfmt::skip]
const ROWS: &[(&str, &str, &[&str])] = &[
    ("admissionregistration.v1.MutatingWebhook", "failurePolicy", &["Fail", "Ignore"]),
    ("admissionregistration.v1.MutatingWebhook", "matchPolicy", &["Equivalent", "Exact"]),
    ("admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", &["IfNeeded", "Never"]),
    ("admissionregistration.v1.MutatingWebhook", "sideEffects", &["None", "NoneOnDryRun", "Some", "Unknown"]),
    ("admissionregistration.v1.RuleWithOperations", "operations", &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]),
    ("admissionregistration.v1.RuleWithOperations", "scope", &["*", "Cluster", "Namespaced"]),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy", &["Fail", "Ignore"]),
    ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", &["Equivalent", "Exact"]),
    ("admissionregistration.v1.ValidatingWebhook", "sideEffects", &["None", "NoneOnDryRun", "Some", "Unknown"]),
    ("apps.v1.DaemonSetUpdateStrategy", "type", &["OnDelete", "RollingUpdate"]),
    ("apps.v1.DeploymentStrategy", "type", &["Recreate", "RollingUpdate"]),
    ("apps.v1.StatefulSetSpec", "podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("apps.v1.StatefulSetUpdateStrategy", "type", &["OnDelete", "RollingUpdate"]),
    ("batch.v1.CronJobSpec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    ("batch.v1.JobSpec", "completionMode", &["Indexed", "NonIndexed"]),
    ("batch.v1.JobSpec", "podReplacementPolicy", &["Failed", "TerminatingOrFailed"]),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", "operator", &["In", "NotIn"]),
    ("batch.v1.PodFailurePolicyRule", "action", &["Count", "FailIndex", "FailJob", "Ignore"]),
    ("core.v1.AppArmorProfile", "type", &["Localhost", "RuntimeDefault", "Unconfined"]),
    ("core.v1.AzureDiskVolumeSource", "cachingMode", &["None", "ReadOnly", "ReadWrite"]),
    ("core.v1.AzureDiskVolumeSource", "kind", &["Dedicated", "Managed", "Shared"]),
    ("core.v1.Container", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("core.v1.Container", "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]),
    ("core.v1.ContainerPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("core.v1.ContainerStatus", "stopSignal", &["SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX", "SIGRTMAX-1", "SIGRTMAX-10", "SIGRTMAX-11", "SIGRTMAX-12", "SIGRTMAX-13", "SIGRTMAX-14", "SIGRTMAX-2", "SIGRTMAX-3", "SIGRTMAX-4", "SIGRTMAX-5", "SIGRTMAX-6", "SIGRTMAX-7", "SIGRTMAX-8", "SIGRTMAX-9", "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ"]),
    ("core.v1.EndpointPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("core.v1.EphemeralContainer", "imagePullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("core.v1.EphemeralContainer", "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]),
    ("core.v1.HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    ("core.v1.HostPathVolumeSource", "type", &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"]),
    ("core.v1.ImageVolumeSource", "pullPolicy", &["Always", "IfNotPresent", "Never"]),
    ("core.v1.Lifecycle", "stopSignal", &["SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGRTMAX", "SIGRTMAX-1", "SIGRTMAX-10", "SIGRTMAX-11", "SIGRTMAX-12", "SIGRTMAX-13", "SIGRTMAX-14", "SIGRTMAX-2", "SIGRTMAX-3", "SIGRTMAX-4", "SIGRTMAX-5", "SIGRTMAX-6", "SIGRTMAX-7", "SIGRTMAX-8", "SIGRTMAX-9", "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ"]),
    ("core.v1.ModifyVolumeStatus", "status", &["InProgress", "Infeasible", "Pending"]),
    ("core.v1.NamespaceStatus", "phase", &["Active", "Terminating"]),
    ("core.v1.NodeSelectorRequirement", "operator", &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"]),
    ("core.v1.NodeStatus", "phase", &["Pending", "Running", "Terminated"]),
    ("core.v1.PersistentVolumeClaimSpec", "accessModes", &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", &["Block", "Filesystem"]),
    ("core.v1.PersistentVolumeClaimStatus", "accessModes", &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    ("core.v1.PersistentVolumeClaimStatus", "phase", &["Bound", "Lost", "Pending"]),
    ("core.v1.PersistentVolumeSpec", "accessModes", &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    ("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy", &["Delete", "Recycle", "Retain"]),
    ("core.v1.PersistentVolumeSpec", "volumeMode", &["Block", "Filesystem"]),
    ("core.v1.PersistentVolumeStatus", "phase", &["Available", "Bound", "Failed", "Pending", "Released"]),
    ("core.v1.PodSecurityContext", "fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
    ("core.v1.PodSecurityContext", "supplementalGroupsPolicy", &["Merge", "Strict"]),
    ("core.v1.PodSpec", "dnsPolicy", &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ("core.v1.PodSpec", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("core.v1.PodSpec", "restartPolicy", &["Always", "Never", "OnFailure"]),
    ("core.v1.PodStatus", "phase", &["Failed", "Pending", "Running", "Succeeded", "Unknown"]),
    ("core.v1.PodStatus", "qosClass", &["BestEffort", "Burstable", "Guaranteed"]),
    ("core.v1.PortStatus", "protocol", &["SCTP", "TCP", "UDP"]),
    ("core.v1.ResourceQuotaSpec", "scopes", &["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating", "VolumeAttributesClass"]),
    ("core.v1.ScopedResourceSelectorRequirement", "operator", &["DoesNotExist", "Exists", "In", "NotIn"]),
    ("core.v1.ScopedResourceSelectorRequirement", "scopeName", &["BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating", "VolumeAttributesClass"]),
    ("core.v1.SeccompProfile", "type", &["Localhost", "RuntimeDefault", "Unconfined"]),
    ("core.v1.SecurityContext", "procMount", &["Default", "Unmasked"]),
    ("core.v1.ServicePort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("core.v1.ServiceSpec", "externalTrafficPolicy", &["Cluster", "Local"]),
    ("core.v1.ServiceSpec", "internalTrafficPolicy", &["Cluster", "Local"]),
    ("core.v1.ServiceSpec", "ipFamilies", &["", "IPv4", "IPv6"]),
    ("core.v1.ServiceSpec", "ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
    ("core.v1.ServiceSpec", "sessionAffinity", &["ClientIP", "None"]),
    ("core.v1.ServiceSpec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    ("core.v1.Taint", "effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    ("core.v1.Toleration", "effect", &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    ("core.v1.Toleration", "operator", &["Equal", "Exists", "Gt", "Lt"]),
    ("core.v1.TopologySpreadConstraint", "nodeAffinityPolicy", &["Honor", "Ignore"]),
    ("core.v1.TopologySpreadConstraint", "nodeTaintsPolicy", &["Honor", "Ignore"]),
    ("core.v1.TopologySpreadConstraint", "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    ("core.v1.VolumeMount", "mountPropagation", &["Bidirectional", "HostToContainer", "None"]),
    ("discovery.v1.EndpointPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("discovery.v1.EndpointSlice", "addressType", &["FQDN", "IPv4", "IPv6"]),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ValidationRule", "reason", &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"]),
    ("networking.v1.HTTPIngressPath", "pathType", &["Exact", "ImplementationSpecific", "Prefix"]),
    ("networking.v1.IngressPortStatus", "protocol", &["SCTP", "TCP", "UDP"]),
    ("networking.v1.NetworkPolicyPort", "protocol", &["SCTP", "TCP", "UDP"]),
    ("networking.v1.NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    ("policy.v1.PodDisruptionBudgetSpec", "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"]),
    ("resource.v1.DeviceAllocationConfiguration", "source", &["FromClaim", "FromClass"]),
    ("resource.v1.DeviceSubRequest", "allocationMode", &["All", "ExactCount"]),
    ("resource.v1.DeviceTaint", "effect", &["NoExecute", "NoSchedule", "None"]),
    ("resource.v1.DeviceToleration", "effect", &["NoExecute", "NoSchedule", "None"]),
    ("resource.v1.DeviceToleration", "operator", &["Equal", "Exists"]),
    ("resource.v1.ExactDeviceRequest", "allocationMode", &["All", "ExactCount"]),
    ("scheduling.v1.PriorityClass", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("storage.v1.StorageClass", "reclaimPolicy", &["Delete", "Recycle", "Retain"]),
    ("storage.v1.StorageClass", "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
];

/// The values of a field, or none if any text will do.
pub fn of(type_name: &str, field: &str) -> Option<&'static [&'static str]> {
    let short = type_name.strip_prefix("io.k8s.api.").unwrap_or(type_name);
    ROWS.iter().find(|row| row.0 == short && row.1 == field).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-OAPI-4
    #[test]
    fn fixed_values_are_found_by_type_and_field() {
        assert_eq!(
            of("io.k8s.api.core.v1.Container", "imagePullPolicy"),
            Some(&["Always", "IfNotPresent", "Never"][..])
        );
        assert_eq!(of("io.k8s.api.core.v1.Container", "image"), None);
        assert!(ROWS.is_sorted_by_key(|row| (row.0, row.1)), "one order, so that a row is easy to find");
    }
}
