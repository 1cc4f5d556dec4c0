//! `volley operator manifests`: the objects that a cluster needs for the operator, as YAML for `kubectl apply`.

use crate::output::{print, yaml};
use anyhow::Result;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use volley_operator::manifests::{PARTS, Part, Place};

const EXAMPLES: &str = "\
Examples:
  volley operator manifests | kubectl apply -f -
  volley operator manifests --image registry.lan/volley:1 --namespace training
  volley operator manifests --only crds          for an operator that runs elsewhere";

/// Print what a cluster needs for the operator, for kubectl apply
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Manifests {
    /// Where the operator goes [default: volley-system]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The image that has this program [default: volley and its version]
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Only these
    #[arg(long, value_name = "PART")]
    only: Option<Only>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Only {
    /// The definitions of the kinds
    Crds,
    /// The namespace, the account and its rights
    Rbac,
    /// The pods that do the work
    Deployment,
}

impl Only {
    fn part(self) -> Part {
        match self {
            Only::Crds => Part::Definitions,
            Only::Rbac => Part::Roles,
            Only::Deployment => Part::Deployment,
        }
    }
}

impl Manifests {
    pub fn run(self) -> Result<ExitCode> {
        let usual = Place::default();
        let place =
            Place { namespace: self.namespace.unwrap_or(usual.namespace), image: self.image.unwrap_or(usual.image) };
        let parts = PARTS.into_iter().filter(|part| self.only.is_none_or(|only| only.part() == *part));
        let texts = parts.map(|part| text(part, &place)).collect::<Result<Vec<_>>>()?;
        print(&texts.concat())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The objects of a part as one text, each behind a line of dashes.
fn text(part: Part, place: &Place) -> Result<String> {
    let documents =
        part.objects(place).iter().map(|object| Ok(format!("---\n{}", yaml(object)?))).collect::<Result<Vec<_>>>()?;
    Ok(documents.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_files_in_deploy_are_what_it_prints() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        for (part, only) in PARTS.into_iter().zip(["crds", "rbac", "deployment"]) {
            let made = text(part, &Place::default()).unwrap();
            let kept = std::fs::read_to_string(folder.join(part.file())).unwrap_or_default();
            assert!(
                kept == made,
                "deploy/{0} is not current; renew it with `cargo run -p volley -- operator manifests --only {only} > deploy/{0}`",
                part.file()
            );
        }
    }
}
