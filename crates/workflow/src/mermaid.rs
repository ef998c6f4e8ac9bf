//! Mermaid flowcharts of workflows.

use crate::document::{Action, Step, Then, Workflow};

impl Workflow {
    /// The Mermaid flowchart of the workflow's steps.
    pub fn mermaid(&self) -> String {
        let mut picture = Picture { text: "flowchart TD\n".to_owned(), made: 0 };
        picture.line("start([start])");
        picture.line("done([end])");
        let last = picture.list(&self.steps, vec![Arrow::from("start")]);
        picture.join(last, "done");
        picture.text
    }
}

/// An arrow whose target node is not known yet.
#[derive(Clone)]
struct Arrow {
    from: String,
    label: String,
}

impl Arrow {
    fn from(from: &str) -> Self {
        Self { from: from.to_owned(), label: String::new() }
    }
}

struct Picture {
    text: String,
    made: usize,
}

impl Picture {
    fn line(&mut self, line: &str) {
        self.text.extend(["    ", line, "\n"]);
    }

    fn join(&mut self, arrows: Vec<Arrow>, to: &str) {
        for arrow in arrows {
            let label = match arrow.label.is_empty() {
                true => String::new(),
                false => format!("|\"{}\"|", quoted(&arrow.label)),
            };
            self.line(&format!("{} -->{label} {to}", arrow.from));
        }
    }

    /// Draws a list of steps and returns the arrows that lead out of it.
    fn list(&mut self, steps: &[Step], mut arriving: Vec<Arrow>) -> Vec<Arrow> {
        let first = self.made;
        self.made += steps.len();
        let id = |place: usize| format!("s{}", first + place);
        let mut leaving = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let node = id(place);
            self.line(&node_of(&node, step));
            self.join(std::mem::take(&mut arriving), &node);
            let mut after = self.inside(step, &node);
            if let Action::Switch(cases) = &step.action {
                for case in cases {
                    let label = case.when.as_ref().map_or("otherwise".to_owned(), |it| it.shown());
                    let arrow = Arrow { from: node.clone(), label };
                    self.lead(case.then, arrow, &id, &mut arriving, &mut leaving);
                }
                if cases.iter().any(|case| case.when.is_none()) {
                    continue;
                }
                after.iter_mut().for_each(|arrow| arrow.label = "otherwise".to_owned());
            }
            if let Some(condition) = &step.condition {
                let skipped =
                    Arrow { from: node.clone(), label: format!("unless {}", condition.shown()) };
                arriving.push(skipped);
            }
            if matches!(step.action, Action::Raise(_)) {
                continue;
            }
            for arrow in after {
                self.lead(step.then, arrow, &id, &mut arriving, &mut leaving);
            }
        }
        leaving.extend(arriving);
        leaving
    }

    fn lead(
        &mut self,
        then: Then,
        arrow: Arrow,
        id: &impl Fn(usize) -> String,
        arriving: &mut Vec<Arrow>,
        leaving: &mut Vec<Arrow>,
    ) {
        match then {
            Then::Continue => arriving.push(arrow),
            Then::Exit => leaving.push(arrow),
            Then::End => self.join(vec![arrow], "done"),
            Then::To(place) => self.join(vec![arrow], &id(place)),
        }
    }

    /// Draws the steps nested in a step and returns the arrows that lead on from it.
    fn inside(&mut self, step: &Step, node: &str) -> Vec<Arrow> {
        let labelled = |label: &str| vec![Arrow { from: node.to_owned(), label: label.to_owned() }];
        match &step.action {
            Action::Do(steps) => self.list(steps, labelled("")),
            Action::For(it) => {
                let last = self.list(&it.steps, labelled("each"));
                self.join(last, node);
                labelled("done")
            }
            Action::Fork { branches, .. } => branches
                .iter()
                .flat_map(|branch| self.list(std::slice::from_ref(branch), labelled("")))
                .collect(),
            Action::Try(it) => {
                let mut last = self.list(&it.steps, labelled("try"));
                match &it.otherwise {
                    Some(steps) => last.extend(self.list(steps, labelled("catch"))),
                    None if it.retry.is_none() => last.extend(labelled("catch")),
                    None => {}
                }
                last
            }
            Action::Call { .. }
            | Action::Set(_)
            | Action::Switch(_)
            | Action::Wait(_)
            | Action::Raise(_) => labelled(""),
        }
    }
}

/// The shape of a node shows the kind of its step.
fn node_of(id: &str, step: &Step) -> String {
    let name = quoted(&step.name);
    match &step.action {
        Action::Call { tool, .. } => format!("{id}[[\"{name}<br/>call {}\"]]", quoted(tool)),
        Action::Switch(_) => format!("{id}{{\"{name}\"}}"),
        Action::For(it) => format!("{id}{{{{\"{name}<br/>for each {}\"}}}}", quoted(&it.each)),
        Action::Fork { compete: false, .. } => format!("{id}[/\"{name}<br/>fork\"/]"),
        Action::Fork { compete: true, .. } => format!("{id}[/\"{name}<br/>fork, first wins\"/]"),
        Action::Try(_) => format!("{id}{{{{\"{name}<br/>try\"}}}}"),
        Action::Wait(time) => format!("{id}([\"{name}<br/>wait {time:?}\"])"),
        Action::Raise(raise) => format!("{id}>\"{name}<br/>raise {}\"]", raise.status),
        Action::Set(_) => format!("{id}[\"{name}<br/>set\"]"),
        Action::Do(_) => format!("{id}[\"{name}\"]"),
    }
}

/// Escapes a text so that Mermaid interprets nothing in it.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars().take(80) {
        match c {
            '"' => quoted.push_str("#quot;"),
            '#' => quoted.push_str("#35;"),
            '<' => quoted.push_str("#lt;"),
            '>' => quoted.push_str("#gt;"),
            '&' => quoted.push_str("#amp;"),
            '`' => quoted.push_str("#96;"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted
}
