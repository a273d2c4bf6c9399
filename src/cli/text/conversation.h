#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/text/answer.h"
#include "cli/text/text_model.h"
#include "data/chat/format/chat_format.h"

namespace accrue::cli {

/// A person's messages and a model's answers to them, in the form of its tokenizer's chat template.
/// A conversation; the part that the model has read is not read again.
class Conversation {
 public:
  /// Both are kept by reference. `system` may be empty. Throws a usage Error if the model has no
  /// chat template.
  Conversation(const TextModel& text_model, const AnswerOptions& options,
               const std::string& system);

  /// The model's answer to one more message. Throws a usage Error if the template refuses it.
  Answer reply(const std::string& message, const TextCallback& tell);

 private:
  std::string rendered(const nlohmann::ordered_json& messages, bool add_generation_prompt) const;

  const TextModel& text_model_;
  AnswerOptions options_;
  std::shared_ptr<const data::ChatFormat> format_;
  data::ChatTemplate chat_;
  models::Decoding decoding_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace accrue::cli
