//! Servers' settings as files that a reader can dispute, and what the laboratory puts into them.

use crate::error::LabError;

/// A template with each `@NAME@` replaced. Errors: a name without a value, which is said.
pub fn fill(template: &str, values: &[(&str, String)]) -> Result<String, LabError> {
    let mut filled = String::with_capacity(template.len());
    // Every other piece is a name.
    for (at, piece) in template.split('@').enumerate() {
        if at % 2 == 0 {
            filled.push_str(piece);
            continue;
        }
        let value = values.iter().find(|(name, _)| *name == piece).map(|(_, value)| value);
        let unknown = || LabError::failed("writing a server's settings", format!("there is no @{piece}@"));
        filled.push_str(value.ok_or_else(unknown)?);
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        let values = [("A", "1".to_owned()), ("TLS", String::new()), ("B", "2".to_owned())];
        assert_eq!(fill("listen @A@@TLS@;\n@B@@A@", &values).unwrap(), "listen 1;\n21");
        assert_eq!(fill("nothing", &[]).unwrap(), "nothing");
        assert!(fill("@C@", &values).unwrap_err().to_string().contains("@C@"));
    }
}
