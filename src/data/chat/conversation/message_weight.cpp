#include "data/chat/conversation/message_weight.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "accrue/core/error.h"
#include "data/chat/conversation/chat_variables.h"
#include "data/json/large_integer.h"

namespace accrue::data {
namespace {

using MessageJson = nlohmann::ordered_json;

/// torchtune's name. True means that a message is not learned; false, its default, states nothing.
constexpr std::string_view name_of_mask = "masked";
/// The names that OpenAI and Mistral, axolotl, its older versions, ms-swift and Tinker use, and
/// torchtune's.
constexpr std::array<std::string_view, 6> weight_names{"weight", "train",     "training",
                                                       "loss",   "trainable", name_of_mask};
/// The names by which they weigh parts of a message, or its tokens.
constexpr std::array<std::string_view, 3> names_of_parts{"train_detail", "training_detail",
                                                         "loss_scale"};

/// Whether a message has a role that no model takes: it is given in any case.
bool is_of_others(const MessageJson& message) {
  constexpr std::array roles{"system", "developer", "user", "tool", "function", "ipython"};
  const auto role = message.find("role");
  return role != message.end() &&
         std::ranges::any_of(roles, [&](const char* other) { return *role == other; });
}

/// The value of a message's key; null if it is missing, or null.
const MessageJson* stated_in(const MessageJson& message, std::string_view name) {
  const auto found = message.find(name);
  return found == message.end() || found->is_null() ? nullptr : &*found;
}

/// Whether a weight means that all of a message is learned, or none; none for other weights.
std::optional<bool> all_or_none(const MessageJson& weight) {
  if (weight.is_boolean()) return weight.get<bool>();
  if (!weight.is_number()) return std::nullopt;
  const auto number = weight.get<double>();
  return number == 0 || number == 1 ? std::optional(number == 1) : std::nullopt;
}

std::string named_weight(std::string_view name, const MessageJson& weight, std::size_t index) {
  const std::string shown =
      weight.is_number() ? weight.dump()
                         : digits_of(weight).value_or("of type " + std::string(weight.type_name()));
  return '"' + std::string(name) + "\" " + shown + " in message " + std::to_string(index);
}

void refuse_parts(const MessageJson& message, std::size_t index, const std::string& what) {
  for (const std::string_view name : names_of_parts)
    if (stated_in(message, name) != nullptr)
      throw usage_error(what, "messages that are learned whole, or not at all",
                        '"' + std::string(name) + "\" in message " + std::to_string(index),
                        "leaving it out, or \"weight\": 0 beside what is only given");
}

bool is_withheld(const MessageJson& message, std::size_t index, const std::string& what) {
  refuse_parts(message, index, what);
  std::optional<bool> is_learned;
  for (const std::string_view name : weight_names) {
    const MessageJson* const weight = stated_in(message, name);
    if (weight == nullptr) continue;
    std::optional<bool> stated = all_or_none(*weight);
    if (!stated)
      throw usage_error(what, "0 or 1, or false or true, as the weight of a message",
                        named_weight(name, *weight, index),
                        "\"weight\" of the line, which weighs all that is learned of it");
    if (name == name_of_mask) {
      if (!*stated) continue;
      stated = false;
    }
    if (is_learned.value_or(*stated) != *stated)
      throw usage_error(what, "one weight of a message",
                        named_weight(name, *weight, index) + ", and another key that says not so",
                        "one of the two keys");
    if (*stated && !is_of_assistant(message))
      throw usage_error(what, "messages of the assistant to be learned",
                        named_weight(name, *weight, index) + ", which is not the assistant's",
                        "leaving it out, or 0");
    is_learned = stated;
  }
  return is_learned == false && !is_of_others(message);
}

}  // namespace

std::vector<bool> withheld_messages(const MessageJson& messages, const std::string& what) {
  std::vector<bool> withheld;
  for (std::size_t i = 0; i < messages.size(); ++i)
    withheld.push_back(is_withheld(messages[i], i, what));
  return withheld;
}

}  // namespace accrue::data
