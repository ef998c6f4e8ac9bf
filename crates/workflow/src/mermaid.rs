//! Mermaid flowcharts of workflows.

use crate::workflow_document::{FlowDirective, StepAction, Workflow, WorkflowStep};

impl Workflow {
    /// The Mermaid flowchart of the workflow's steps.
    pub fn to_mermaid(&self) -> String {
        let mut picture = FlowchartWriter { text: "flowchart TD\n".to_owned(), node_count: 0 };
        picture.push_line("start([start])");
        picture.push_line("done([end])");
        let last = picture.draw_steps(&self.steps, vec![PendingArrow::from_node("start")]);
        picture.draw_arrows(last, "done");
        picture.text
    }
}

/// An arrow whose target node is not known yet.
#[derive(Clone)]
struct PendingArrow {
    from: String,
    label: String,
}

impl PendingArrow {
    fn from_node(from: &str) -> Self {
        Self { from: from.to_owned(), label: String::new() }
    }
}

struct FlowchartWriter {
    text: String,
    node_count: usize,
}

impl FlowchartWriter {
    fn push_line(&mut self, line: &str) {
        self.text.extend(["    ", line, "\n"]);
    }

    fn draw_arrows(&mut self, arrows: Vec<PendingArrow>, to: &str) {
        for arrow in arrows {
            let label = match arrow.label.is_empty() {
                true => String::new(),
                false => format!("|\"{}\"|", escape_label(&arrow.label)),
            };
            self.push_line(&format!("{} -->{label} {to}", arrow.from));
        }
    }

    /// Draws a list of steps and returns the arrows that lead out of it.
    fn draw_steps(
        &mut self,
        steps: &[WorkflowStep],
        mut arriving: Vec<PendingArrow>,
    ) -> Vec<PendingArrow> {
        let first = self.node_count;
        self.node_count += steps.len();
        let id = |place: usize| format!("s{}", first + place);
        let mut leaving = Vec::new();
        for (place, step) in steps.iter().enumerate() {
            let node = id(place);
            self.push_line(&render_node(&node, step));
            self.draw_arrows(std::mem::take(&mut arriving), &node);
            let mut after = self.draw_nested_steps(step, &node);
            if let StepAction::Switch(cases) = &step.action {
                for case in cases {
                    let label =
                        case.when.as_ref().map_or("otherwise".to_owned(), |it| it.to_summary());
                    let arrow = PendingArrow { from: node.clone(), label };
                    self.route_arrow(case.then, arrow, &id, &mut arriving, &mut leaving);
                }
                if cases.iter().any(|case| case.when.is_none()) {
                    continue;
                }
                after.iter_mut().for_each(|arrow| arrow.label = "otherwise".to_owned());
            }
            if let Some(condition) = &step.condition {
                let skipped = PendingArrow {
                    from: node.clone(),
                    label: format!("unless {}", condition.to_summary()),
                };
                arriving.push(skipped);
            }
            if matches!(step.action, StepAction::Raise(_)) {
                continue;
            }
            for arrow in after {
                self.route_arrow(step.then, arrow, &id, &mut arriving, &mut leaving);
            }
        }
        leaving.extend(arriving);
        leaving
    }

    fn route_arrow(
        &mut self,
        then: FlowDirective,
        arrow: PendingArrow,
        id: &impl Fn(usize) -> String,
        arriving: &mut Vec<PendingArrow>,
        leaving: &mut Vec<PendingArrow>,
    ) {
        match then {
            FlowDirective::Continue => arriving.push(arrow),
            FlowDirective::Exit => leaving.push(arrow),
            FlowDirective::End => self.draw_arrows(vec![arrow], "done"),
            FlowDirective::To(place) => self.draw_arrows(vec![arrow], &id(place)),
        }
    }

    /// Draws the steps nested in a step and returns the arrows that lead on from it.
    fn draw_nested_steps(&mut self, step: &WorkflowStep, node: &str) -> Vec<PendingArrow> {
        let labelled =
            |label: &str| vec![PendingArrow { from: node.to_owned(), label: label.to_owned() }];
        match &step.action {
            StepAction::Do(steps) => self.draw_steps(steps, labelled("")),
            StepAction::For(it) => {
                let last = self.draw_steps(&it.steps, labelled("each"));
                self.draw_arrows(last, node);
                labelled("done")
            }
            StepAction::Fork { branches, .. } => branches
                .iter()
                .flat_map(|branch| self.draw_steps(std::slice::from_ref(branch), labelled("")))
                .collect(),
            StepAction::Try(it) => {
                let mut last = self.draw_steps(&it.steps, labelled("try"));
                match &it.catch_steps {
                    Some(steps) => last.extend(self.draw_steps(steps, labelled("catch"))),
                    None if it.retry.is_none() => last.extend(labelled("catch")),
                    None => {}
                }
                last
            }
            StepAction::Call { .. }
            | StepAction::Set(_)
            | StepAction::Switch(_)
            | StepAction::Wait(_)
            | StepAction::Raise(_) => labelled(""),
        }
    }
}

/// The shape of a node shows the kind of its step.
fn render_node(id: &str, step: &WorkflowStep) -> String {
    let name = escape_label(&step.name);
    match &step.action {
        StepAction::Call { tool, .. } => {
            format!("{id}[[\"{name}<br/>call {}\"]]", escape_label(tool))
        }
        StepAction::Switch(_) => format!("{id}{{\"{name}\"}}"),
        StepAction::For(it) => {
            format!("{id}{{{{\"{name}<br/>for each {}\"}}}}", escape_label(&it.item_variable))
        }
        StepAction::Fork { compete: false, .. } => format!("{id}[/\"{name}<br/>fork\"/]"),
        StepAction::Fork { compete: true, .. } => {
            format!("{id}[/\"{name}<br/>fork, first wins\"/]")
        }
        StepAction::Try(_) => format!("{id}{{{{\"{name}<br/>try\"}}}}"),
        StepAction::Wait(time) => format!("{id}([\"{name}<br/>wait {time:?}\"])"),
        StepAction::Raise(raise) => format!("{id}>\"{name}<br/>raise {}\"]", raise.status),
        StepAction::Set(_) => format!("{id}[\"{name}<br/>set\"]"),
        StepAction::Do(_) => format!("{id}[\"{name}\"]"),
    }
}

/// Escapes a text so that Mermaid interprets nothing in it.
fn escape_label(text: &str) -> String {
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
