#pragma once

#include <string>
#include <string_view>

#include "accrue/distributed/launch.h"

namespace accrue::distributed {

/// The environment variable that whoever launches the ranks sets to the same secret for all.
constexpr const char* kRunToken = "ACCRUE_RUN_TOKEN";

/// What makes a run token, for people.
constexpr const char* kMakeRunToken =
    "export ACCRUE_RUN_TOKEN=$(openssl rand -hex 16), the same one on all machines";

/// Throws a usage Error for a token that is too short to keep anybody out. The token itself is in
/// no message.
void check_run_token(std::string_view token);

/// Throws a usage Error if the ranks' store can be reached from other machines and they have no
/// token: the store asks nobody who he is; or where MASTER_ADDR stands for nothing.
void check_strangers_stay_out(const Launch& launch);

}  // namespace accrue::distributed
