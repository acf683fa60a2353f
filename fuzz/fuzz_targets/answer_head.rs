//! Heads of answers: the end is the same however the bytes come, and what is accepted says once where it ends.
#![no_main]

use tinaja_http::answer::{AnswerEnd, answer_head_end, judge_answer};
use tinaja_http::lines::lines;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let at_once = answer_head_end(data, 0);
    let mut bytewise = Ok(None);
    for length in 0..=data.len() {
        bytewise = answer_head_end(&data[..length], length.saturating_sub(1));
        if bytewise != Ok(None) {
            break;
        }
    }
    assert_eq!(at_once, bytewise);
    let Ok(Some(end)) = at_once else { return };
    let head = &data[..end];
    let Ok(judged) = judge_answer(head) else { return };
    let fields = &head[judged.fields.clone()];
    let count = |name: &str| lines(fields).filter(|line| line.name.eq_ignore_ascii_case(name.as_bytes())).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    match judged.end {
        AnswerEnd::Length(_) => assert_eq!((lengths, codings), (1, 0)),
        AnswerEnd::Chunked => assert_eq!((lengths, codings), (0, 1)),
        AnswerEnd::Close => assert_eq!((lengths, codings), (0, 0)),
    }
    assert!(lines(fields).all(|line| !line.value.contains(&0) && !line.name.is_empty()));
});
