//! System call filters: the default one for containers, and profiles in the JSON format that Docker and the kubelet read.
//!
//! A profile becomes a list of rules, and the rules a classic BPF program: one comparison per call number, in order. The
//! caller installs it in the child, right before the container's program starts.

use super::wire::Fault;
use serde::Deserialize;
use std::collections::BTreeMap;

use super::syscalls::{ALWAYS, BY_CAPABILITY, NUMBERS};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;
/// Calls of the x32 interface have this bit; no filter knows them.
const X32_BIT: u32 = 0x4000_0000;

const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_KILL_THREAD: u32 = 0;
const RET_TRAP: u32 = 0x0003_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_LOG: u32 = 0x7ffc_0000;
const RET_ALLOW: u32 = 0x7fff_0000;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Offsets in `struct seccomp_data`.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENTS: u32 = 16;
/// The kernel's own limit on a program.
const INSTRUCTIONS_MAX: usize = 4096;

/// Namespaces that a container may not make without `SYS_ADMIN`, as flags of `clone`.
const CLONE_NAMESPACES: u64 = 0x7e02_0000;
const AF_VSOCK: u64 = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Equal(u64),
    Differs(u64),
    MaskedEqual { mask: u64, value: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// All must hold: argument number and what it must be.
    conditions: Vec<(u32, Condition)>,
    action: u32,
}

/// A filter before it is a program: an answer for every call number, and one for the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    rules: BTreeMap<u32, Vec<Rule>>,
    otherwise: u32,
}

impl Filter {
    /// What containers get unless they ask for something else; `capabilities` (names) open the calls that need them.
    pub fn runtime_default(capabilities: &[&str]) -> Filter {
        let mut filter = Filter { rules: BTreeMap::new(), otherwise: RET_ERRNO | libc::EPERM as u32 };
        let opened = BY_CAPABILITY.iter().filter(|(capability, _)| capabilities.contains(capability));
        for name in ALWAYS.iter().chain(opened.flat_map(|(_, names)| names.iter())) {
            filter.add(name, Vec::new(), RET_ALLOW);
        }
        for personality in [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff] {
            filter.add("personality", vec![(0, Condition::Equal(personality))], RET_ALLOW);
        }
        filter.add("socket", vec![(0, Condition::Differs(AF_VSOCK))], RET_ALLOW);
        if !capabilities.contains(&"SYS_ADMIN") {
            let no_namespaces = Condition::MaskedEqual { mask: CLONE_NAMESPACES, value: 0 };
            filter.add("clone", vec![(0, no_namespaces)], RET_ALLOW);
            // Its flags are behind a pointer, which filters cannot follow: libraries then fall back to clone.
            filter.add("clone3", Vec::new(), RET_ERRNO | libc::ENOSYS as u32);
        }
        filter
    }

    /// Reads a profile; `capabilities` decide its `includes` and `excludes`.
    pub fn from_profile(json: &str, capabilities: &[&str]) -> Result<Filter, Fault> {
        let profile: Profile = serde_json::from_str(json)
            .map_err(|error| Fault::invalid(format!("the seccomp profile is not valid: {error}")))?;
        let mut filter =
            Filter { rules: BTreeMap::new(), otherwise: action(&profile.default_action, profile.default_errno_ret)? };
        for entry in &profile.syscalls {
            let has = |caps: &[String]| caps.iter().any(|cap| capabilities.contains(&cap.trim_start_matches("CAP_")));
            let is_left_out =
                has(&entry.excludes.caps) || !entry.includes.caps.is_empty() && !has(&entry.includes.caps);
            if is_left_out {
                continue;
            }
            let conditions = entry.args.iter().map(condition).collect::<Result<Vec<_>, Fault>>()?;
            let action = action(&entry.action, entry.errno_ret)?;
            for name in entry.names.iter().chain(&entry.name) {
                filter.add(name, conditions.clone(), action);
            }
        }
        Ok(filter)
    }

    /// Names that this kernel's architecture does not have are left out, as libseccomp does.
    fn add(&mut self, name: &str, conditions: Vec<(u32, Condition)>, action: u32) {
        if let Some(number) = number(name) {
            self.rules.entry(number).or_default().push(Rule { conditions, action });
        }
    }

    pub fn program(&self) -> Result<Vec<libc::sock_filter>, Fault> {
        let mut program = vec![
            instruction(LOAD, 0, 0, AT_ARCHITECTURE),
            instruction(JUMP_EQUAL, 1, 0, ARCHITECTURE),
            instruction(RETURN, 0, 0, RET_KILL_PROCESS),
            instruction(LOAD, 0, 0, AT_NUMBER),
            instruction(JUMP_GREATER_OR_EQUAL, 0, 1, X32_BIT),
            instruction(RETURN, 0, 0, RET_ERRNO | libc::ENOSYS as u32),
        ];
        for (number, rules) in &self.rules {
            let block = self.block(rules);
            let skip = u8::try_from(block.len())
                .map_err(|_| Fault::invalid("the seccomp profile has too many rules for one call"))?;
            program.push(instruction(JUMP_EQUAL, 0, skip, *number));
            program.extend(block);
        }
        program.push(instruction(RETURN, 0, 0, self.otherwise));
        match program.len() <= INSTRUCTIONS_MAX {
            true => Ok(program),
            false => Err(Fault::invalid("the seccomp profile is too long for the kernel")),
        }
    }

    /// What happens once the number has matched: the first rule whose conditions hold answers.
    fn block(&self, rules: &[Rule]) -> Vec<libc::sock_filter> {
        let mut block = Vec::new();
        for rule in rules {
            let mut tests: Vec<Vec<libc::sock_filter>> =
                rule.conditions.iter().map(|(at, condition)| test(*at, *condition)).collect();
            // A test that fails jumps over the tests after it and the rule's own return.
            let mut after = 1;
            for test in tests.iter_mut().rev() {
                let length = test.len();
                for (index, step) in test.iter_mut().enumerate().filter(|(_, step)| step.code == JUMP_EQUAL) {
                    let to_end = (length - index - 1) as u8;
                    for target in [&mut step.jt, &mut step.jf] {
                        *target = match *target {
                            PASS => to_end,
                            FAIL => to_end + after,
                            within => within,
                        };
                    }
                }
                after += length as u8;
            }
            block.extend(tests.into_iter().flatten());
            block.push(instruction(RETURN, 0, 0, rule.action));
        }
        if rules.last().is_some_and(|rule| !rule.conditions.is_empty()) {
            block.push(instruction(RETURN, 0, 0, self.otherwise));
        }
        block
    }
}

/// Jump targets that `block` replaces by distances.
const PASS: u8 = 254;
const FAIL: u8 = 255;

fn test(argument: u32, condition: Condition) -> Vec<libc::sock_filter> {
    let low = AT_ARGUMENTS + argument * 8;
    let (load_low, load_high) = (instruction(LOAD, 0, 0, low), instruction(LOAD, 0, 0, low + 4));
    let half = |value: u64, jt, jf| instruction(JUMP_EQUAL, jt, jf, value as u32);
    match condition {
        Condition::Equal(value) => vec![load_low, half(value, 0, FAIL), load_high, half(value >> 32, PASS, FAIL)],
        Condition::Differs(value) => vec![load_low, half(value, 0, PASS), load_high, half(value >> 32, FAIL, PASS)],
        Condition::MaskedEqual { mask, value } => vec![
            load_low,
            instruction(AND, 0, 0, mask as u32),
            half(value, 0, FAIL),
            load_high,
            instruction(AND, 0, 0, (mask >> 32) as u32),
            half(value >> 32, PASS, FAIL),
        ],
    }
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

fn number(name: &str) -> Option<u32> {
    let found = NUMBERS.iter().find(|(known, _)| known.strip_prefix("SYS_") == Some(name))?;
    u32::try_from(found.1).ok()
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<u32>,
    #[serde(default)]
    syscalls: Vec<ProfileRule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileRule {
    #[serde(default)]
    names: Vec<String>,
    name: Option<String>,
    action: String,
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Vec<ProfileArgument>,
    #[serde(default)]
    includes: ProfileCapabilities,
    #[serde(default)]
    excludes: ProfileCapabilities,
}

#[derive(Debug, Default, Deserialize)]
struct ProfileCapabilities {
    #[serde(default)]
    caps: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProfileArgument {
    index: u32,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

fn action(name: &str, errno: Option<u32>) -> Result<u32, Fault> {
    match name {
        "SCMP_ACT_ALLOW" => Ok(RET_ALLOW),
        "SCMP_ACT_ERRNO" => Ok(RET_ERRNO | errno.unwrap_or(libc::EPERM as u32)),
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Ok(RET_KILL_THREAD),
        "SCMP_ACT_KILL_PROCESS" => Ok(RET_KILL_PROCESS),
        "SCMP_ACT_TRAP" => Ok(RET_TRAP),
        "SCMP_ACT_LOG" => Ok(RET_LOG),
        other => {
            Err(Fault::unsupported(format!("the seccomp profile asks for the action {other}, which is not known")))
        }
    }
}

fn condition(argument: &ProfileArgument) -> Result<(u32, Condition), Fault> {
    if argument.index > 5 {
        return Err(Fault::invalid(format!("the seccomp profile tests argument {}; calls have six", argument.index)));
    }
    let condition = match argument.op.as_str() {
        "SCMP_CMP_EQ" => Condition::Equal(argument.value),
        "SCMP_CMP_NE" => Condition::Differs(argument.value),
        "SCMP_CMP_MASKED_EQ" => Condition::MaskedEqual { mask: argument.value, value: argument.value_two },
        other => {
            return Err(Fault::unsupported(format!("the seccomp profile compares by {other}, which is not known")));
        }
    };
    Ok((argument.index, condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program as the kernel would.
    fn answer(program: &[libc::sock_filter], number: i64, arguments: [u64; 6]) -> u32 {
        let word = |at: u32| match at {
            AT_NUMBER => number as u32,
            AT_ARCHITECTURE => ARCHITECTURE,
            at => (arguments[((at - AT_ARGUMENTS) / 8) as usize] >> ((at - AT_ARGUMENTS) % 8 * 8)) as u32,
        };
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match step.code {
                LOAD => accumulator = word(step.k),
                AND => accumulator &= step.k,
                JUMP_EQUAL => at += usize::from(if accumulator == step.k { step.jt } else { step.jf }),
                JUMP_GREATER_OR_EQUAL => at += usize::from(if accumulator >= step.k { step.jt } else { step.jf }),
                RETURN => return step.k,
                other => panic!("unknown instruction {other}"),
            }
        }
    }

    const REFUSED: u32 = RET_ERRNO | libc::EPERM as u32;

    #[test]
    fn the_default_allows_ordinary_calls_and_refuses_the_rest() {
        let program = Filter::runtime_default(&["CHOWN"]).program().unwrap();
        let none = [0; 6];
        assert_eq!(answer(&program, libc::SYS_read, none), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_mount, none), REFUSED);
        assert_eq!(answer(&program, libc::SYS_clone, [17, 0, 0, 0, 0, 0]), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]), REFUSED);
        assert_eq!(answer(&program, libc::SYS_clone3, none), RET_ERRNO | libc::ENOSYS as u32);
        assert_eq!(answer(&program, libc::SYS_personality, [8, 0, 0, 0, 0, 0]), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_personality, [9, 0, 0, 0, 0, 0]), REFUSED);
        assert_eq!(answer(&program, libc::SYS_socket, [2, 0, 0, 0, 0, 0]), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_socket, [AF_VSOCK, 0, 0, 0, 0, 0]), REFUSED);
        assert_eq!(answer(&program, libc::SYS_read | i64::from(X32_BIT), none), RET_ERRNO | libc::ENOSYS as u32);
    }

    #[test]
    fn a_capability_opens_its_calls() {
        let program = Filter::runtime_default(&["SYS_ADMIN"]).program().unwrap();
        assert_eq!(answer(&program, libc::SYS_mount, [0; 6]), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_clone, [libc::CLONE_NEWUSER as u64, 0, 0, 0, 0, 0]), RET_ALLOW);
    }

    #[test]
    fn a_profile_decides_by_arguments_and_capabilities() {
        let json = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["mkdir", "nosuchcall"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5},
            {"name": "chmod", "action": "SCMP_ACT_KILL_PROCESS", "args": [{"index": 1, "value": 73, "valueTwo": 73, "op": "SCMP_CMP_MASKED_EQ"}]},
            {"names": ["mount"], "action": "SCMP_ACT_ERRNO", "excludes": {"caps": ["CAP_SYS_ADMIN"]}}]}"#;
        let program = Filter::from_profile(json, &["SYS_ADMIN"]).unwrap().program().unwrap();
        assert_eq!(answer(&program, libc::SYS_mkdir, [0; 6]), RET_ERRNO | 5);
        assert_eq!(answer(&program, libc::SYS_chmod, [0, 0o755, 0, 0, 0, 0]), RET_KILL_PROCESS);
        assert_eq!(answer(&program, libc::SYS_chmod, [0, 0o644, 0, 0, 0, 0]), RET_ALLOW);
        assert_eq!(answer(&program, libc::SYS_mount, [0; 6]), RET_ALLOW);
    }

    #[test]
    fn an_unknown_action_is_refused_by_name() {
        let fault = Filter::from_profile(r#"{"defaultAction": "SCMP_ACT_NOTIFY"}"#, &[]).unwrap_err();
        assert!(fault.text.contains("SCMP_ACT_NOTIFY"));
    }
}
