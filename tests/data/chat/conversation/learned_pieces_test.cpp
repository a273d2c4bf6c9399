#include "data/chat/conversation/learned_pieces.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/atomic_file.h"
#include "support/errors.h"

namespace accrue::data {
namespace {

using accrue::testing::usage_message;
using Messages = nlohmann::ordered_json;

ChatTemplate family(const std::string& name) {
  const std::filesystem::path folder = ACCRUE_CHAT_TEMPLATES;
  return ChatTemplate::parse(read_file(folder / (name + ".jinja")), name);
}

ChatSetting tokens() {
  ChatSetting setting;
  setting.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"date_string", "1 Jan 2025"}};
  return setting;
}

Messages two_turns() {
  return {{{"role", "user"}, {"content", "Hi"}},
          {{"role", "assistant"}, {"content", "Hello"}},
          {{"role", "user"}, {"content", "More"}},
          {{"role", "assistant"}, {"content", "Yes"}}};
}

/// The learned parts of each sequence, with | between its pieces.
std::vector<std::string> learned(const std::string& name, const Messages& messages = two_turns()) {
  std::vector<std::string> shown;
  for (const ChatSequence& sequence : learned_sequences(family(name), messages, tokens())) {
    std::string said;
    for (const auto& [text, is_learned] : sequence)
      if (is_learned) said += (said.empty() ? "" : "|") + text;
    shown.push_back(said);
  }
  return shown;
}

using Learned = std::vector<std::string>;

TEST(LearnedPieces, AreTheAssistantsWordsAndTheEndOfItsTurn) {
  EXPECT_EQ(learned("chatml"), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("qwen2"), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("qwen2_5"), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("smollm2"), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("llama2"), (Learned{" Hello </s>| Yes </s>"}));
  EXPECT_EQ(learned("llama3"), (Learned{"Hello<|eot_id|>|Yes<|eot_id|>"}));
  EXPECT_EQ(learned("llama3_tools"), (Learned{"Hello<|eot_id|>|Yes<|eot_id|>"}));
  EXPECT_EQ(learned("mistral1"), (Learned{"Hello</s>|Yes</s>"}));
  EXPECT_EQ(learned("mistral2"), (Learned{" Hello</s>| Yes</s>"}));
  EXPECT_EQ(learned("mistral3"), (Learned{" Hello</s>| Yes</s>"}));
  EXPECT_EQ(learned("gemma2"), (Learned{"Hello<end_of_turn>\n|Yes<end_of_turn>\n"}));
  EXPECT_EQ(learned("gemma3"), (Learned{"Hello<end_of_turn>\n|Yes<end_of_turn>\n"}));
  EXPECT_EQ(learned("zephyr"), (Learned{"Hello</s>\n|Yes</s>\n"}));
  EXPECT_EQ(learned("deepseek_r1_distill"),
            (Learned{"Hello<｜end▁of▁sentence｜>|Yes<｜end▁of▁sentence｜>"}));
}

TEST(LearnedPieces, EndOfTextIsLearnedWhereTheConversationEnds) {
  EXPECT_EQ(learned("phi3"), (Learned{"Hello<|end|>\n|Yes<|end|>\n</s>"}));
}

TEST(LearnedPieces, GenerationBlocksAreTakenAsTheyAre) {
  EXPECT_EQ(learned("chatml_generation"), (Learned{"Hello<|im_end|>|Yes<|im_end|>"}));
}

TEST(LearnedPieces, TurnsThatLaterOnesChangeAreSequencesOfTheirOwn) {
  EXPECT_EQ(learned("qwen3"), (Learned{"<think>\n\n</think>\n\nHello<|im_end|>\n",
                                       "<think>\n\n</think>\n\nYes<|im_end|>\n"}));
}

TEST(LearnedPieces, ThoughtIsLearnedUnderAnyOfItsNames) {
  Messages messages = {{{"role", "user"}, {"content", "Hi"}},
                       {{"role", "assistant"}, {"content", "Hello"}, {"reasoning", "greet"}}};
  EXPECT_EQ(learned("qwen3", messages), (Learned{"<think>\ngreet\n</think>\n\nHello<|im_end|>\n"}));
}

TEST(LearnedPieces, WhatFollowsTheLastAnswerIsNotLearned) {
  Messages messages = two_turns();
  messages.push_back({{"role", "user"}, {"content", "Bye"}});
  const auto sequences = learned_sequences(family("chatml"), messages, tokens());
  ASSERT_EQ(sequences.size(), 1U);
  EXPECT_EQ(sequences[0].back().text, "<|im_start|>user\nBye<|im_end|>\n");
  EXPECT_FALSE(sequences[0].back().is_learned);
}

TEST(LearnedPieces, ConversationsThatTeachNothingAreRefused) {
  const auto refused = [](const std::string& name, const Messages& messages) {
    return usage_message([&] { learned(name, messages); });
  };
  const Messages asked = {{{"role", "user"}, {"content", "Hi"}}};
  EXPECT_NE(refused("chatml", asked).find("role assistant"), std::string::npos);
  EXPECT_NE(refused("chatml_generation", asked).find("words of the assistant"), std::string::npos);
  EXPECT_NE(refused("chatml", Messages::array()).find("role assistant"), std::string::npos);
  EXPECT_NE(refused("chatml_generation", Messages::array()).find("role assistant"),
            std::string::npos);
  EXPECT_NE(refused("chatml", {{"role", "user"}}).find("a list of objects"), std::string::npos);
  EXPECT_NE(refused("llama2", {asked[0], asked[0], two_turns()[1]}).find("must alternate"),
            std::string::npos);
}

TEST(LearnedPieces, TemplatesThatOpenAnswersOtherwiseThanTheyWriteThemAreRefused) {
  const std::string message = usage_message([] { learned("deepseek_r1_distill_think"); });
  EXPECT_NE(message.find("message 1"), std::string::npos) << message;
  EXPECT_NE(message.find("<think>\\n"), std::string::npos) << message;
}

/// The text of the only sequence, with the learned parts in brackets.
std::string shown(const ChatTemplate& chat, const Messages& messages) {
  const auto sequences = learned_sequences(chat, messages, tokens());
  std::string whole;
  for (const auto& [text, is_learned] : sequences.front())
    whole += is_learned ? "[" + text + "]" : text;
  EXPECT_EQ(sequences.size(), 1U) << whole;
  return whole;
}

Messages assistant_first() {
  return {{{"role", "assistant"}, {"content", "Hi"}},
          {{"role", "user"}, {"content", "More"}},
          {{"role", "assistant"}, {"content", "Yes"}}};
}

Messages answer_alone(const std::string& content) {
  return Messages::array({Messages::object({{"role", "assistant"}, {"content", content}})});
}

TEST(LearnedPieces, AConversationMayBeginWithTheAssistant) {
  EXPECT_EQ(shown(family("chatml"), assistant_first()),
            "<|im_start|>assistant\n[Hi<|im_end|>\n]<|im_start|>user\nMore<|im_end|>\n"
            "<|im_start|>assistant\n[Yes<|im_end|>\n]");
  EXPECT_EQ(shown(family("qwen2_5"), assistant_first()),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
            "assistant.<|im_end|>\n<|im_start|>assistant\n[Hi<|im_end|>\n]<|im_start|>user\n"
            "More<|im_end|>\n<|im_start|>assistant\n[Yes<|im_end|>\n]");
  EXPECT_EQ(learned("smollm2", assistant_first()), (Learned{"Hi<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("llama3", assistant_first()), (Learned{"Hi<|eot_id|>|Yes<|eot_id|>"}));
  EXPECT_EQ(learned("llama3_tools", assistant_first()), (Learned{"Hi<|eot_id|>|Yes<|eot_id|>"}));
  EXPECT_EQ(learned("phi3", assistant_first()), (Learned{"Hi<|end|>\n|Yes<|end|>\n</s>"}));
  EXPECT_EQ(learned("zephyr", assistant_first()), (Learned{"Hi</s>\n|Yes</s>\n"}));
  EXPECT_EQ(learned("qwen3", assistant_first()),
            (Learned{"Hi<|im_end|>\n|<think>\n\n</think>\n\nYes<|im_end|>\n"}));
  EXPECT_EQ(learned("chatml", answer_alone("Hi")), (Learned{"Hi<|im_end|>\n"}));
}

TEST(LearnedPieces, TheFirstPromptIsTheOneBeforeTheAnswersOwnWords) {
  EXPECT_EQ(
      shown(family("chatml"), answer_alone("<|im_start|>assistant\na<|im_start|>assistant\n")),
      "<|im_start|>assistant\n"
      "[<|im_start|>assistant\na<|im_start|>assistant\n<|im_end|>\n]");
  const ChatTemplate telling = ChatTemplate::parse(
      "{% if messages[0].role != 'system' %}A user talks, Bot: answers.{% endif %}"
      "{% for m in messages %}{{ 'Bot: ' if m.role == 'assistant' else 'User: ' }}{{ m.content }}\n"
      "{% endfor %}{% if add_generation_prompt %}Bot: {% endif %}",
      "telling");
  EXPECT_EQ(shown(telling, answer_alone("answers.")),
            "A user talks, Bot: answers.Bot: [answers.\n]");
  EXPECT_EQ(shown(telling, answer_alone("")), "A user talks, Bot: answers.Bot: [\n]");
}

TEST(LearnedPieces, ATemplateWithoutGenerationPromptHasAFirstPromptToo) {
  const ChatTemplate plain = ChatTemplate::parse(
      "{{ bos_token }}{{ messages[0].role[:0] }}{% for m in messages %}{{ m.role }}: "
      "{{ m.content }}\n{% endfor %}",
      "plain");
  EXPECT_EQ(shown(plain, assistant_first()), "<s>[assistant: Hi\n]user: More\n[assistant: Yes\n]");
  const ChatTemplate strict = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 and m.role == "
      "messages[loop.index0 - 1].role %}{{ raise_exception('turns alternate') }}{% endif %}"
      "¿{{ m.role }}: {{ m.content }}\n{% endfor %}",
      "strict");
  EXPECT_EQ(shown(strict, assistant_first()),
            "<s>¿[assistant: Hi\n]¿user: More\n[¿assistant: Yes\n]");
}

TEST(LearnedPieces, AFirstAnswerThatIsOpenedOtherwiseIsRefused) {
  const std::string message =
      usage_message([] { learned("deepseek_r1_distill_think", assistant_first()); });
  EXPECT_NE(message.find("message 0"), std::string::npos) << message;
}

TEST(LearnedPieces, AnswersInARowAreTurnsOfTheirOwn) {
  Messages messages = two_turns();
  messages.erase(2);
  EXPECT_EQ(learned("chatml", messages), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  EXPECT_EQ(learned("qwen2_5", messages), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}));
  messages.insert(messages.begin(), Messages::object({{"role", "system"}, {"content", "S"}}));
  messages.erase(1);
  EXPECT_EQ(learned("qwen2_5", messages), (Learned{"Hello<|im_end|>\n|Yes<|im_end|>\n"}))
      << "behind a system's message alone";
}

}  // namespace
}  // namespace accrue::data
