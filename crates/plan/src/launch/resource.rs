//! Which runner a resource's name asks for; those that are not here are told with what to do instead.

use super::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Kubernetes,
    Container,
    Process,
}

impl Kind {
    pub fn of(resource: &str) -> Result<Kind, Refusal> {
        let refused = |what: &str, hint: &str| {
            Err(Refusal::new("N-2", "resource", format!("resource `{resource}` {what}"), hint))
        };
        match resource {
            "kubernetes" => Ok(Kind::Kubernetes),
            // `local` is an old spelling; no name at all has always meant Docker.
            "" | "local" | "local-container" => Ok(Kind::Container),
            "local-process" => Ok(Kind::Process),
            "sagemaker" | "vertex" | "gcp-vertex" => refused(
                "is a service of a cloud that this agent does not drive",
                "use a `kubernetes` queue on that cloud's cluster, or let W&B's own agent serve this queue",
            ),
            "slurm" => refused("is not supported yet", "use a `kubernetes` or a `local-process` queue"),
            _ => refused("is unknown", "resources are `kubernetes`, `local-container` and `local-process`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // N-1, N-2, N-3, D-3
    #[test]
    fn every_resource_has_a_runner_or_advice() {
        assert_eq!(Kind::of("kubernetes"), Ok(Kind::Kubernetes));
        for name in ["", "local", "local-container"] {
            assert_eq!(Kind::of(name), Ok(Kind::Container));
        }
        assert_eq!(Kind::of("local-process"), Ok(Kind::Process));
        for name in ["sagemaker", "vertex", "gcp-vertex", "slurm", "kubernets"] {
            let refusal = Kind::of(name).unwrap_err();
            assert!(refusal.to_string().contains(&format!("`{name}`")) && !refusal.hint.is_empty(), "{refusal}");
        }
    }
}
