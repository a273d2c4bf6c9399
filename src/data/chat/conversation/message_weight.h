#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace accrue::data {

/// For each message of the assistant, whether it is marked as only given and not learned: "weight",
/// "train", "training", "loss" or "trainable" is 0 or false, or "masked" is 1 or true.
/// It is learned otherwise, also if they are null or missing.
/// For other messages, which are given in any case: false.
/// Throws a usage Error of the operation `what` for every other value, for keys that contradict
/// each other, for messages of other roles than the assistant that are to be learned, and for keys
/// that weigh parts of a message ("train_detail").
std::vector<bool> withheld_messages(const nlohmann::ordered_json& messages,
                                    const std::string& what);

}  // namespace accrue::data
