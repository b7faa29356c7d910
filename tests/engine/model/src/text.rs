/// A text. Everything in the model is UTF-8, because `execute` refuses other words.
pub(crate) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
