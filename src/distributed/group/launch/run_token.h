#pragma once

#include <string>
#include <string_view>

#include "accrue/distributed/launch.h"

namespace accrue::distributed {

/// The environment variable that the launching user sets to the same secret for all ranks.
constexpr const char* kRunToken = "ACCRUE_RUN_TOKEN";

/// How to make a run token, for people.
constexpr const char* kMakeRunToken =
    "export ACCRUE_RUN_TOKEN=$(openssl rand -hex 16), the same one on all machines";

/// Throws a usage Error for a token that is too short to protect anything. No message contains the
/// token itself.
void check_run_token(std::string_view token);

/// Throws a usage Error if the ranks' store can be reached from other machines and they have no
/// token, since the store does not authenticate; or if MASTER_ADDR cannot be resolved.
void require_run_token(const Launch& launch);

}  // namespace accrue::distributed
