//! Writer and reader together: what a container prints is what a client reads.

use super::reader::{LogReader, ReadOptions, stream};
use super::writer::{LogLimits, LogWriter};
use super::*;
use futures::StreamExt;
use jiff::Timestamp;
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

struct World {
    _folder: tempfile::TempDir,
    path: PathBuf,
    writer: LogWriter,
}

fn world(file_bytes_max: u64, files_max: usize) -> World {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("main/0.log");
    let writer = LogWriter::open(&path, LogLimits { file_bytes_max, files_max }).unwrap();
    World { _folder: folder, path, writer }
}

fn at(second: i64) -> Timestamp {
    Timestamp::new(1_800_000_000 + second, 5).unwrap()
}

fn all(path: &Path, options: ReadOptions) -> String {
    let mut reader = LogReader::open(path, &options).unwrap();
    drain(&mut reader)
}

fn drain(reader: &mut LogReader) -> String {
    let mut text = Vec::new();
    while let Some(piece) = reader.next_piece().unwrap() {
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).unwrap()
}

fn tail(lines: u64) -> ReadOptions {
    ReadOptions { tail_lines: Some(lines), ..Default::default() }
}

// K-LOG-1
#[test]
fn lines_are_written_in_the_cri_format() {
    let mut world = world(1 << 20, 5);
    world.writer.write(Output::Stdout, b"one\ntw", at(0)).unwrap();
    world.writer.write(Output::Stderr, b"oh\n", at(1)).unwrap();
    world.writer.write(Output::Stdout, b"o\n\nrest", at(2)).unwrap();
    world.writer.finish(Output::Stdout, at(3)).unwrap();
    let file = std::fs::read_to_string(&world.path).unwrap();
    let expected = "2027-01-15T08:00:00.000000005Z stdout F one\n2027-01-15T08:00:01.000000005Z stderr F oh\n\
        2027-01-15T08:00:02.000000005Z stdout F two\n2027-01-15T08:00:02.000000005Z stdout F \n\
        2027-01-15T08:00:03.000000005Z stdout P rest\n";
    assert_eq!(file, expected);
    assert_eq!(all(&world.path, ReadOptions::default()), "one\noh\ntwo\n\nrest");
}

// K-LOG-1
#[test]
fn long_lines_are_parts_in_the_file_and_whole_for_the_client() {
    for len in [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, 5 * LINE_BYTES_MAX / 2] {
        let mut world = world(1 << 20, 5);
        let line = format!("{}\n", "x".repeat(len));
        world.writer.write(Output::Stdout, line.as_bytes(), at(0)).unwrap();
        world.writer.write(Output::Stdout, b"next\n", at(1)).unwrap();
        let parts = std::fs::read_to_string(&world.path).unwrap().matches(" P ").count();
        assert_eq!(parts, (len - 1) / LINE_BYTES_MAX);
        assert_eq!(all(&world.path, ReadOptions::default()), format!("{line}next\n"));
        assert_eq!(all(&world.path, tail(2)), format!("{line}next\n"));
        assert_eq!(all(&world.path, tail(1)), "next\n");
        let stamped = all(&world.path, ReadOptions { timestamps: true, ..Default::default() });
        assert_eq!(stamped, format!("2027-01-15T08:00:00.000000005Z {line}2027-01-15T08:00:01.000000005Z next\n"));
    }
}

// K-LOG-1
#[test]
fn options_choose_what_is_read() {
    let mut world = world(1 << 20, 5);
    for second in 0..10 {
        let output = if second % 2 == 0 { Output::Stdout } else { Output::Stderr };
        world.writer.write(output, format!("{second}\n").as_bytes(), at(second)).unwrap();
    }
    let read = |options| all(&world.path, options);
    assert_eq!(read(ReadOptions { since: Some(at(7)), ..Default::default() }), "7\n8\n9\n");
    assert_eq!(read(ReadOptions { output: Some(Output::Stderr), ..Default::default() }), "1\n3\n5\n7\n9\n");
    assert_eq!(read(ReadOptions { limit_bytes: Some(5), ..Default::default() }), "0\n1\n2");
    assert_eq!(read(tail(0)), "");
    assert_eq!(read(tail(3)), "7\n8\n9\n");
    assert_eq!(read(tail(100)).lines().count(), 10);
    assert_eq!(read(ReadOptions { since: Some(at(8)), ..tail(3) }), "8\n9\n");
}

#[test]
fn unfinished_last_line_counts_as_a_line() {
    let mut world = world(1 << 20, 5);
    world.writer.write(Output::Stdout, b"one\ntwo\nprompt> ", at(0)).unwrap();
    world.writer.finish(Output::Stdout, at(1)).unwrap();
    assert_eq!(all(&world.path, tail(1)), "prompt> ");
    assert_eq!(all(&world.path, tail(2)), "two\nprompt> ");
}

#[test]
fn log_that_is_not_there_yet_is_empty_and_then_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.log");
    let mut reader = LogReader::open(&path, &tail(5)).unwrap();
    assert_eq!(drain(&mut reader), "");
    let mut writer = LogWriter::open(&path, LogLimits::default()).unwrap();
    writer.write(Output::Stdout, b"hello\n", at(0)).unwrap();
    assert_eq!(drain(&mut reader), "hello\n");
}

#[test]
fn rotation_keeps_the_newest_files_and_readers_see_all_of_them() {
    let mut world = world(1000, 3);
    for number in 0..200 {
        world.writer.write(Output::Stdout, format!("line {number}\n").as_bytes(), at(number)).unwrap();
    }
    let files = std::fs::read_dir(world.path.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let sizes: Vec<u64> = files.map(|file| file.metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 3);
    assert!(sizes.iter().all(|size| *size <= 1000));
    let text = all(&world.path, ReadOptions::default());
    let numbers: Vec<u32> = text.lines().map(|line| line[5..].parse().unwrap()).collect();
    assert!(numbers.len() > 40);
    assert_eq!(numbers, (200 - numbers.len() as u32..200).collect::<Vec<_>>());
    assert_eq!(all(&world.path, tail(30)), text.split_inclusive('\n').skip(numbers.len() - 30).collect::<String>());
}

#[test]
fn follower_loses_and_doubles_nothing_across_rotations() {
    let mut world = world(500, 4);
    let mut reader = LogReader::open(&world.path, &ReadOptions::default()).unwrap();
    let (mut seen, mut expected) = (String::new(), String::new());
    for number in 0..300 {
        let line = format!("line {number}\n");
        world.writer.write(Output::Stdout, line.as_bytes(), at(number)).unwrap();
        expected += &line;
        // The reader is up to three rotations behind, which is what the files kept allow.
        if number % 17 == 0 {
            seen += &drain(&mut reader);
        }
    }
    seen += &drain(&mut reader);
    assert_eq!(seen, expected);
}

#[test]
fn reader_that_fell_behind_goes_on_with_what_is_left() {
    let mut world = world(500, 2);
    world.writer.write(Output::Stdout, b"first\n", at(0)).unwrap();
    let mut reader = LogReader::open(&world.path, &ReadOptions::default()).unwrap();
    for number in 0..100 {
        world.writer.write(Output::Stdout, format!("{number}\n").as_bytes(), at(number)).unwrap();
    }
    let seen = drain(&mut reader);
    assert!(seen.starts_with("first\n0\n"), "its own file is kept by being open");
    assert!(seen.ends_with("98\n99\n"));
}

#[test]
fn writer_goes_on_after_a_crash_tore_the_last_line() {
    let world = world(1 << 20, 5);
    std::fs::write(&world.path, "2027-01-15T08:00:00.000000005Z stdout F one\n2027-01-15T08:").unwrap();
    let mut writer = LogWriter::open(&world.path, LogLimits::default()).unwrap();
    writer.write(Output::Stdout, b"two\n", at(1)).unwrap();
    assert_eq!(all(&world.path, ReadOptions::default()), "one\ntwo\n");
    assert_eq!(all(&world.path, tail(1)), "two\n");
}

#[test]
fn flood_stays_within_the_limits() {
    let mut world = world(100_000, 2);
    let newlines = vec![b'\n'; 64 * 1024];
    for _ in 0..10 {
        world.writer.write(Output::Stdout, &newlines, at(0)).unwrap();
    }
    let files = std::fs::read_dir(world.path.parent().unwrap()).unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert!(bytes <= 200_000, "{bytes}");
}

// K-LOG-1
#[tokio::test(start_paused = true)]
async fn following_ends_when_the_container_ended_and_all_was_read() {
    let mut world = world(1 << 20, 5);
    world.writer.write(Output::Stdout, b"early\n", at(0)).unwrap();
    let ended = CancellationToken::new();
    let reader = LogReader::open(&world.path, &ReadOptions::default()).unwrap();
    let mut lines = Box::pin(stream(reader, Some(ended.clone())));
    assert_eq!(lines.next().await.unwrap(), "early\n");
    world.writer.write(Output::Stdout, b"late\n", at(1)).unwrap();
    assert_eq!(lines.next().await.unwrap(), "late\n");
    world.writer.write(Output::Stdout, b"last", at(2)).unwrap();
    world.writer.finish(Output::Stdout, at(2)).unwrap();
    ended.cancel();
    assert_eq!(lines.next().await.unwrap(), "last");
    assert_eq!(lines.next().await, None);
    let once = LogReader::open(&world.path, &tail(1)).unwrap();
    assert_eq!(stream(once, None).collect::<Vec<_>>().await, ["last"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_is_written_is_read_and_tails_are_suffixes(
        pieces in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), b'a'..=b'z'], 0..60), 0..40),
        file_bytes_max in 200u64..3000,
        lines in 0u64..30,
    ) {
        let mut world = world(file_bytes_max, 1000);
        let mut printed = Vec::new();
        for piece in &pieces {
            world.writer.write(Output::Stdout, piece, at(0)).unwrap();
            printed.extend_from_slice(piece);
        }
        world.writer.finish(Output::Stdout, at(1)).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        prop_assert_eq!(&all(&world.path, ReadOptions::default()), &printed);
        let count = printed.split_inclusive('\n').count();
        let expected: String = printed.split_inclusive('\n').skip(count.saturating_sub(lines as usize)).collect();
        prop_assert_eq!(all(&world.path, tail(lines)), expected);
    }

    #[test]
    fn damaged_files_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), lines in 0u64..5) {
        let world = world(1000, 3);
        std::fs::write(&world.path, &bytes).unwrap();
        let mut reader = LogReader::open(&world.path, &tail(lines)).unwrap();
        while reader.next_piece().unwrap().is_some() {}
    }
}
