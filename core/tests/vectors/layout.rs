//! How a vector is written: a step takes a few lines, a command two.

use serde_json::Value;

/// A whole file.
pub(crate) fn file(file: &Value) -> String {
    let mut text = String::new();
    expanded(&mut text, file, "", |text, key, value| match value {
        Value::Array(steps) if key == "steps" && !steps.is_empty() => {
            list(text, steps, "  ", |text, step| expanded(text, step, "    ", field_of_step));
        }
        _ => text.push_str(&inline(value)),
    });
    text.push('\n');
    text
}

/// A part of a file, for a message.
pub(crate) fn lines(value: &Value) -> String {
    let mut text = String::new();
    field_of_step(&mut text, "outputs", value);
    text
}

fn field_of_step(text: &mut String, key: &str, value: &Value) {
    match value {
        Value::Array(outputs) if key == "outputs" && !outputs.is_empty() => {
            list(text, outputs, "      ", |text, output| text.push_str(&one_output(output)));
        }
        _ => text.push_str(&inline(value)),
    }
}

/// On one line; a command's arguments begin a second one.
fn one_output(output: &Value) -> String {
    let line = inline(output);
    let Some(words) = output["send"]["command"].as_array() else { return line };
    // A command without a script is short.
    let Some(keys) = words.get(2).and_then(|keys| keys.as_str()?.parse::<usize>().ok()) else { return line };
    let (head, arguments) = words.split_at(3 + keys);
    if arguments.is_empty() {
        return line;
    }
    let head = head.iter().map(inline).collect::<Vec<_>>().join(", ");
    line.replacen(&format!("{head}, "), &format!("{head},\n          "), 1)
}

fn expanded(text: &mut String, object: &Value, indent: &str, field: impl Fn(&mut String, &str, &Value)) {
    let object = object.as_object().expect("a vector and its steps are objects");
    text.push('{');
    for (index, (key, value)) in object.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&format!("{indent}  \"{key}\": "));
        field(text, key, value);
    }
    text.push_str(&format!("\n{indent}}}"));
}

fn list(text: &mut String, items: &[Value], indent: &str, item: impl Fn(&mut String, &Value)) {
    text.push('[');
    for (index, value) in items.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&format!("{indent}  "));
        item(text, value);
    }
    text.push_str(&format!("\n{indent}]"));
}

fn inline(value: &Value) -> String {
    match value {
        Value::Object(object) if object.is_empty() => "{}".into(),
        Value::Object(object) => {
            let fields = object.iter().map(|(key, value)| format!("\"{key}\": {}", inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(inline).collect::<Vec<_>>().join(", ")),
        scalar => scalar.to_string(),
    }
}
