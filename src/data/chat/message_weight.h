#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace accrue::data {

/// For each message of the assistant, whether it says that it is only given and not learned:
/// "weight", "train", "training" or "loss" is 0 or false. 1, true, null and none of these keys say
/// that it is not. Of others, which are given in any case: false.
/// Throws a usage Error, its operation being `what`, for every other value, for keys that
/// contradict one another, for messages of others than the assistant that are to be learned, and
/// for keys that weigh parts of a message ("train_detail").
std::vector<bool> withheld_messages(const nlohmann::ordered_json& messages,
                                    const std::string& what);

}  // namespace accrue::data
