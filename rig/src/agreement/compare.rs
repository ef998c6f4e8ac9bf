//! Asks the product and the oracle the same questions, and counts them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use toolcrib::{AgentView, Identity};

use super::ask;
use super::build::Product;
use super::oracle::{Meaning, Oracle, Toolset};
use super::tally::Tally;
use super::wishes::Refused;
use super::world::{Case, Wish, World};

/// A question that the oracle and the product answer differently.
#[derive(Debug)]
pub(super) struct Mismatch {
    /// The number of changes applied before.
    after: usize,
    claims: Value,
    question: String,
    oracle: String,
    product: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, claims, question, oracle, product } = self;
        write!(f, "after {after} wishes, {question}")?;
        if !claims.is_null() {
            write!(f, " for {claims}")?;
        }
        write!(f, "\n  oracle:  {oracle}\n  product: {product}")
    }
}

/// Builds the world of a case and checks each of its states. Stops at the first difference.
pub(super) async fn check(case: &Case, tally: &mut Tally) -> anyhow::Result<Option<Mismatch>> {
    tally.worlds += 1;
    let product = Product::start().await?;
    let found = walk(case, &product, tally).await;
    tally.mismatches += u64::from(matches!(found, Ok(Some(_))));
    found
}

async fn walk(
    case: &Case,
    product: &Product,
    tally: &mut Tally,
) -> anyhow::Result<Option<Mismatch>> {
    let identities: Vec<Identity> =
        case.identities.iter().map(Product::identity).collect::<anyhow::Result<_>>()?;
    let mut world = World::default();
    let (making, changes) = case.wishes.split_at(case.made_by.min(case.wishes.len()));
    for (place, wish) in making.iter().enumerate() {
        let mut asking = Asking { after: place + 1, claims: &Value::Null, tally, mismatch: None };
        asking.outcome(wish, world.apply(wish), product.wish(wish).await?);
        if asking.mismatch.is_some() {
            return Ok(asking.mismatch);
        }
    }
    let mut state = State { case, identities: &identities, product, after: making.len() };
    let mut found = state.look(&world, tally).await?;
    for wish in changes {
        if found.is_some() {
            break;
        }
        let before = world.clone();
        state.after += 1;
        found = state.change(wish, &before, &mut world, tally).await?;
        if found.is_none() {
            found = state.look(&world, tally).await?;
        }
    }
    Ok(found)
}

/// A case after some of its changes.
struct State<'a> {
    case: &'a Case,
    identities: &'a [Identity],
    product: &'a Product,
    after: usize,
}

impl State<'_> {
    fn asking<'a>(&'a self, claims: &'a Value, tally: &'a mut Tally) -> Asking<'a> {
        Asking { after: self.after, claims, tally, mismatch: None }
    }

    /// Applies one more change: compares its predicted effect, whether it is accepted, and its actual effect.
    async fn change(
        &self,
        wish: &Wish,
        before: &World,
        world: &mut World,
        tally: &mut Tally,
    ) -> anyhow::Result<Option<Mismatch>> {
        let supposed = self.product.what_if(wish, self.identities).await?;
        let outcome = world.apply(wish);
        let mut asking = self.asking(&Value::Null, tally);
        let would_be = supposed.as_ref().map(drop).map_err(|_| Refused);
        asking.same("whether it could be", &outcome, &would_be);
        asking.outcome(wish, outcome, self.product.wish(wish).await?);
        if asking.mismatch.is_some() {
            return Ok(asking.mismatch);
        }
        let (before, after) = (Oracle::new(before), Oracle::new(world));
        for (claims, effect) in self.case.identities.iter().zip(supposed.iter().flatten()) {
            let toolsets = (before.toolset(claims), after.toolset(claims));
            let change = after.change(claims, &toolsets.0, &toolsets.1);
            let mut asking = self.asking(claims, tally);
            asking.same("what a change would do", &change, &ask::change(effect));
            if asking.mismatch.is_some() {
                return Ok(asking.mismatch);
            }
        }
        Ok(None)
    }

    /// Asks every question for each agent in the current state.
    async fn look(&self, world: &World, tally: &mut Tally) -> anyhow::Result<Option<Mismatch>> {
        tally.states += 1;
        let oracle = Oracle::new(world);
        let names = names(world);
        for (place, claims) in self.case.identities.iter().enumerate() {
            let identity = &self.identities[place];
            let view = self.product.view(identity);
            let toolset = oracle.toolset(claims);
            tally.count(&toolset);
            let mut asking = self.asking(claims, tally);
            let is_admin = (oracle.is_admin(claims), self.product.is_admin(identity));
            asking.same("whether they are an admin", &is_admin.0, &is_admin.1);
            asking.tools(&oracle, &toolset, &view).await;
            asking.names(&toolset, &view, &names);
            // Calls and explanations take longer: each state asks them for a different agent.
            if (self.after + place).is_multiple_of(self.case.identities.len()) {
                asking.calls(&toolset, &view, &names).await;
                let all = oracle.all_tools();
                let tool = all.get(self.after % all.len().max(1)).copied().unwrap_or("s:none");
                let oracle = oracle.reasons(claims, &toolset, tool);
                let product = ask::reasons(&self.product.explain(identity, tool));
                asking.same(format_args!("the reasons for `{tool}`"), &oracle, &product);
            }
            if asking.mismatch.is_some() {
                return Ok(asking.mismatch);
            }
        }
        Ok(None)
    }
}

/// One agent's questions in one state.
struct Asking<'a> {
    after: usize,
    claims: &'a Value,
    tally: &'a mut Tally,
    mismatch: Option<Mismatch>,
}

impl Asking<'_> {
    async fn tools(&mut self, oracle: &Oracle<'_>, toolset: &Toolset<'_>, view: &AgentView) {
        let about_tools = ["tool_search", "execute_tool"];
        let about_tools = about_tools.map(|name| (ask::WITHOUT_ID.to_owned(), name.to_owned()));
        let about_tools = about_tools.into_iter().filter(|_| toolset.has_more_than_the_list());
        let listed = toolset.listed().map(|tool| (tool.id.to_owned(), tool.shown.clone()));
        let listed: Vec<(String, String)> = about_tools.chain(listed).collect();
        self.same("the list", &listed, &ask::list(view));
        let found: BTreeSet<String> = toolset.searchable().map(|tool| tool.id.to_owned()).collect();
        self.same("what a search finds", &found, &ask::search(view).await);
        for id in oracle.all_tools() {
            let tool = toolset.get(id).map(|tool| (tool.shown.clone(), tool.visibility));
            self.same(format_args!("id `{id}`"), &tool, &ask::find_id(view, id));
        }
    }

    fn names(&mut self, toolset: &Toolset<'_>, view: &AgentView, names: &BTreeSet<String>) {
        for name in names {
            let meaning = toolset.meaning(name);
            self.tally.ambiguous += u64::from(meaning == Meaning::Ambiguous);
            self.same(format_args!("name `{name}`"), &meaning, &ask::find(view, name));
        }
    }

    async fn calls(&mut self, toolset: &Toolset<'_>, view: &AgentView, names: &BTreeSet<String>) {
        for name in names {
            let called = ask::call(view, name).await;
            self.same(format_args!("a call of `{name}`"), &toolset.meaning(name), &called);
        }
    }

    fn outcome(&mut self, wish: &Wish, oracle: Result<(), Refused>, product: Result<(), Refused>) {
        self.tally.refused += u64::from(oracle.is_err());
        self.same(format_args!("the outcome of {wish:?}"), &oracle, &product);
    }

    fn same<T: PartialEq + fmt::Debug>(
        &mut self,
        question: impl fmt::Display,
        oracle: &T,
        product: &T,
    ) {
        self.tally.questions += 1;
        if oracle != product && self.mismatch.is_none() {
            self.mismatch = Some(Mismatch {
                after: self.after,
                claims: self.claims.clone(),
                question: question.to_string(),
                oracle: format!("{oracle:?}"),
                product: format!("{product:?}"),
            });
        }
    }
}

/// Every form of every tool, granted or not, and some near misses.
fn names(world: &World) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["".to_owned(), "no such tool".to_owned()]);
    for (id, tool) in &world.tools {
        let forms = super::oracle::forms(id, &tool.source, tool.shown_name());
        let [plain, qualified, _] = &forms;
        let other_case = if plain.to_uppercase() == *plain {
            plain.to_lowercase()
        } else {
            plain.to_uppercase()
        };
        let almost = [
            other_case,
            format!("{plain} "),
            format!(" {plain}"),
            format!("{plain}\u{200b}"),
            qualified.replace("__", ":"),
            qualified.replace("__", "_"),
            id.clone(),
            tool.latest.name.clone(),
        ];
        names.extend(forms);
        names.extend(almost);
    }
    names
}
