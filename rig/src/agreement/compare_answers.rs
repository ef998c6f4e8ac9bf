//! Asks the product and the oracle the same questions, and counts them.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use toolcrib::{AgentView, CallerIdentity};

use super::oracle::{NameMeaning, Oracle, OracleToolset};
use super::product_answers;
use super::product_driver::ProductUnderTest;
use super::tally::AgreementTally;
use super::world::{AgreementCase, World, WorldChange};
use super::world_changes::ChangeRefusal;

/// A question that the oracle and the product answer differently.
#[derive(Debug)]
pub(super) struct AnswerMismatch {
    /// The number of changes applied before.
    after: usize,
    claims: Value,
    question: String,
    oracle: String,
    product: String,
}

impl fmt::Display for AnswerMismatch {
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
pub(super) async fn check_case(
    case: &AgreementCase,
    tally: &mut AgreementTally,
) -> anyhow::Result<Option<AnswerMismatch>> {
    tally.worlds += 1;
    let product = ProductUnderTest::start().await?;
    let found = walk_states(case, &product, tally).await;
    tally.mismatches += u64::from(matches!(found, Ok(Some(_))));
    found
}

async fn walk_states(
    case: &AgreementCase,
    product: &ProductUnderTest,
    tally: &mut AgreementTally,
) -> anyhow::Result<Option<AnswerMismatch>> {
    let identities: Vec<CallerIdentity> =
        case.identities.iter().map(ProductUnderTest::to_identity).collect::<anyhow::Result<_>>()?;
    let mut world = World::default();
    let (making, changes) = case.wishes.split_at(case.made_by.min(case.wishes.len()));
    for (place, wish) in making.iter().enumerate() {
        let mut asking =
            AgentQuestions { after: place + 1, claims: &Value::Null, tally, mismatch: None };
        asking.compare_outcome(wish, world.apply(wish), product.apply_change(wish).await?);
        if asking.mismatch.is_some() {
            return Ok(asking.mismatch);
        }
    }
    let mut state = CaseState { case, identities: &identities, product, after: making.len() };
    let mut found = state.check_agents(&world, tally).await?;
    for wish in changes {
        if found.is_some() {
            break;
        }
        let before = world.clone();
        state.after += 1;
        found = state.check_change(wish, &before, &mut world, tally).await?;
        if found.is_none() {
            found = state.check_agents(&world, tally).await?;
        }
    }
    Ok(found)
}

/// A case after some of its changes.
struct CaseState<'a> {
    case: &'a AgreementCase,
    identities: &'a [CallerIdentity],
    product: &'a ProductUnderTest,
    after: usize,
}

impl CaseState<'_> {
    fn questions_for<'a>(
        &'a self,
        claims: &'a Value,
        tally: &'a mut AgreementTally,
    ) -> AgentQuestions<'a> {
        AgentQuestions { after: self.after, claims, tally, mismatch: None }
    }

    /// Applies one more change: compares its predicted effect, whether it is accepted, and its actual effect.
    async fn check_change(
        &self,
        wish: &WorldChange,
        before: &World,
        world: &mut World,
        tally: &mut AgreementTally,
    ) -> anyhow::Result<Option<AnswerMismatch>> {
        let supposed = self.product.what_if(wish, self.identities).await?;
        let outcome = world.apply(wish);
        let mut asking = self.questions_for(&Value::Null, tally);
        let would_be = supposed.as_ref().map(drop).map_err(|_| ChangeRefusal);
        asking.expect_same("whether it could be", &outcome, &would_be);
        asking.compare_outcome(wish, outcome, self.product.apply_change(wish).await?);
        if asking.mismatch.is_some() {
            return Ok(asking.mismatch);
        }
        let (before, after) = (Oracle::new(before), Oracle::new(world));
        for (claims, effect) in self.case.identities.iter().zip(supposed.iter().flatten()) {
            let toolsets = (before.toolset_for(claims), after.toolset_for(claims));
            let change = after.agent_effect(claims, &toolsets.0, &toolsets.1);
            let mut asking = self.questions_for(claims, tally);
            asking.expect_same(
                "what a change would do",
                &change,
                &product_answers::to_agent_effect(effect),
            );
            if asking.mismatch.is_some() {
                return Ok(asking.mismatch);
            }
        }
        Ok(None)
    }

    /// Asks every question for each agent in the current state.
    async fn check_agents(
        &self,
        world: &World,
        tally: &mut AgreementTally,
    ) -> anyhow::Result<Option<AnswerMismatch>> {
        tally.states += 1;
        let oracle = Oracle::new(world);
        let names = names_to_try(world);
        for (place, claims) in self.case.identities.iter().enumerate() {
            let identity = &self.identities[place];
            let view = self.product.view(identity);
            let toolset = oracle.toolset_for(claims);
            tally.count_toolset(&toolset);
            let mut asking = self.questions_for(claims, tally);
            let is_admin = (oracle.is_admin(claims), self.product.is_admin(identity));
            asking.expect_same("whether they are an admin", &is_admin.0, &is_admin.1);
            asking.compare_tools(&oracle, &toolset, &view).await;
            asking.compare_names(&toolset, &view, &names);
            // Calls and explanations take longer: each state asks them for a different agent.
            if (self.after + place).is_multiple_of(self.case.identities.len()) {
                asking.compare_calls(&toolset, &view, &names).await;
                let all = oracle.all_tool_ids();
                let tool = all.get(self.after % all.len().max(1)).copied().unwrap_or("s:none");
                let oracle = oracle.explain_grants(claims, &toolset, tool);
                let product =
                    product_answers::to_grant_explanation(&self.product.explain(identity, tool));
                asking.expect_same(format_args!("the reasons for `{tool}`"), &oracle, &product);
            }
            if asking.mismatch.is_some() {
                return Ok(asking.mismatch);
            }
        }
        Ok(None)
    }
}

/// One agent's questions in one state.
struct AgentQuestions<'a> {
    after: usize,
    claims: &'a Value,
    tally: &'a mut AgreementTally,
    mismatch: Option<AnswerMismatch>,
}

impl AgentQuestions<'_> {
    async fn compare_tools(
        &mut self,
        oracle: &Oracle<'_>,
        toolset: &OracleToolset<'_>,
        view: &AgentView,
    ) {
        let about_tools = ["tool_search", "execute_tool"];
        let about_tools =
            about_tools.map(|name| (product_answers::NO_CATALOG_ID.to_owned(), name.to_owned()));
        let about_tools = about_tools.into_iter().filter(|_| toolset.has_searchable_only_tool());
        let listed = toolset.listed().map(|tool| (tool.id.to_owned(), tool.shown_name.clone()));
        let listed: Vec<(String, String)> = about_tools.chain(listed).collect();
        self.expect_same("the list", &listed, &product_answers::list_tools(view));
        let found: BTreeSet<String> = toolset.searchable().map(|tool| tool.id.to_owned()).collect();
        self.expect_same(
            "what a search finds",
            &found,
            &product_answers::search_tool_ids(view).await,
        );
        for id in oracle.all_tool_ids() {
            let tool = toolset.get(id).map(|tool| (tool.shown_name.clone(), tool.visibility));
            self.expect_same(
                format_args!("id `{id}`"),
                &tool,
                &product_answers::find_by_id(view, id),
            );
        }
    }

    fn compare_names(
        &mut self,
        toolset: &OracleToolset<'_>,
        view: &AgentView,
        names: &BTreeSet<String>,
    ) {
        for name in names {
            let meaning = toolset.resolve_name(name);
            self.tally.ambiguous += u64::from(meaning == NameMeaning::Ambiguous);
            self.expect_same(
                format_args!("name `{name}`"),
                &meaning,
                &product_answers::resolve_name(view, name),
            );
        }
    }

    async fn compare_calls(
        &mut self,
        toolset: &OracleToolset<'_>,
        view: &AgentView,
        names: &BTreeSet<String>,
    ) {
        for name in names {
            let called = product_answers::call_by_name(view, name).await;
            self.expect_same(
                format_args!("a call of `{name}`"),
                &toolset.resolve_name(name),
                &called,
            );
        }
    }

    fn compare_outcome(
        &mut self,
        wish: &WorldChange,
        oracle: Result<(), ChangeRefusal>,
        product: Result<(), ChangeRefusal>,
    ) {
        self.tally.refused_changes += u64::from(oracle.is_err());
        self.expect_same(format_args!("the outcome of {wish:?}"), &oracle, &product);
    }

    fn expect_same<T: PartialEq + fmt::Debug>(
        &mut self,
        question: impl fmt::Display,
        oracle: &T,
        product: &T,
    ) {
        self.tally.questions += 1;
        if oracle != product && self.mismatch.is_none() {
            self.mismatch = Some(AnswerMismatch {
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
fn names_to_try(world: &World) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["".to_owned(), "no such tool".to_owned()]);
    for (id, tool) in &world.tools {
        let forms = super::oracle::name_forms(id, &tool.source, tool.effective_name());
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
