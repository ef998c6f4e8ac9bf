//! `/api/config`: the configuration file that the server follows, and whether its content is applied.

use api_types::config_status::FollowedConfig;
use api_types::problem::{Problem, ProblemCode};
use axum::Json;
use axum::extract::State;
use endpoint::app_state::AppState;
use endpoint::caller::Admin;
use endpoint::route::ApiRoute;

pub(crate) fn routes() -> Vec<ApiRoute> {
    vec![
        ApiRoute::get("get_config", "/api/config", get_config)
            .for_admins("config", "Say whether the configuration file of the server is in force")
            .returns_json::<FollowedConfig>(),
    ]
}

async fn get_config(
    Admin(_): Admin,
    State(app): State<AppState>,
) -> Result<Json<FollowedConfig>, Problem> {
    let followed = app.config_follower.get().map(|state| state.current_status());
    let detail = "this server follows no configuration file: start it with --config FILE";
    followed.map(Json).ok_or_else(|| Problem::new(ProblemCode::NotFound, detail))
}
