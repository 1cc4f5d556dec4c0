//! The message that a container leaves behind (`state.terminated.message`): from its file, else from its log.

use k8s_openapi::api::core::v1::Container;

/// Of the file, the end counts.
const FILE_BYTES_MAX: usize = 4096;
const LOG_BYTES_MAX: usize = 2048;
const LOG_LINES_MAX: usize = 80;

/// What an ended container leaves for us to read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Remains<'a> {
    /// What the runtime says of its own, for example why the process could not start.
    pub runtime_message: &'a str,
    /// The content of `terminationMessagePath`.
    pub file: &'a [u8],
    /// The end of its log, as the container wrote it.
    pub log: &'a str,
    pub exit_code: i32,
}

/// The message for `Exit::message`; `None` when there is nothing to say.
pub fn message(container: &Container, remains: &Remains) -> Option<String> {
    let asks_for_log = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
    let own = match remains.file {
        [] if asks_for_log && remains.exit_code != 0 => last_lines(remains.log),
        file => tail(file, FILE_BYTES_MAX),
    };
    let parts = [remains.runtime_message.to_owned(), own];
    let text = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    Some(text).filter(|text| !text.is_empty())
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.split_inclusive('\n').collect();
    let kept = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].concat();
    tail(kept.as_bytes(), LOG_BYTES_MAX)
}

fn tail(bytes: &[u8], bytes_max: usize) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(bytes_max)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, remains: Remains, expected: Option<&str>) {
        let termination_message_policy = Some(policy.to_owned());
        let container = Container { termination_message_policy, ..Container::default() };
        assert_eq!(message(&container, &remains).as_deref(), expected);
    }

    // K-POD-2
    #[test]
    fn the_file_counts_then_the_log_of_a_failure_if_asked_for() {
        let failed = Remains { log: "oh\nno\n", exit_code: 1, ..Remains::default() };
        check("File", failed, None);
        check("FallbackToLogsOnError", failed, Some("oh\nno\n"));
        check("FallbackToLogsOnError", Remains { exit_code: 0, ..failed }, None);
        check("FallbackToLogsOnError", Remains { file: b"said", ..failed }, Some("said"));
        check("File", Remains { runtime_message: "exec: no", file: b"said", ..failed }, Some("exec: no: said"));
    }

    #[test]
    fn long_messages_keep_their_end() {
        let log: String = (0..100).map(|n| format!("{n}\n")).collect();
        let container =
            Container { termination_message_policy: Some("FallbackToLogsOnError".to_owned()), ..Container::default() };
        let kept = message(&container, &Remains { log: &log, exit_code: 1, ..Remains::default() }).unwrap();
        assert!(kept.starts_with("20\n") && kept.ends_with("99\n"));
        let file = vec![b'x'; 5000];
        let kept = message(&container, &Remains { file: &file, ..Remains::default() }).unwrap();
        assert_eq!(kept.len(), FILE_BYTES_MAX);
    }
}
