#include <unistd.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/text/answer.h"
#include "cli/text/conversation.h"
#include "cli/text/text_model.h"
#include "core/printable_streams.h"

namespace accrue::cli {
namespace {

struct SampleArguments {
  TextModelOrigin origin;
  std::string compute;
  std::optional<std::string> prompt;
  std::string system;
  bool chat = false, json = false;
  AnswerOptions answer;
};

/// Writes text to stdout so that it is visible as it arrives. A program that reads it gets the
/// model's text unchanged.
void show(std::string_view text) {
  if (::isatty(STDOUT_FILENO) == 1)
    std::cout << text << std::flush;
  else
    std::cout << Unescaped{text} << std::flush;
}

void print(const Answer& answer, const SampleArguments& arguments) {
  if (arguments.json)
    std::cout << to_json(answer, arguments.answer.generate.seed)
                     .dump(2, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace)
              << std::endl;
  else
    std::cout << std::endl;
  note_speed(answer);
}

TextCallback shown_unless_json(const SampleArguments& arguments) {
  return arguments.json ? TextCallback() : TextCallback(show);
}

/// Answers each line of standard input; at a terminal there is a prompt for them.
void converse(Conversation& conversation, const SampleArguments& arguments) {
  const bool asks = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  std::string line;
  while (true) {
    if (asks) show("> ");
    if (!std::getline(std::cin, line)) break;
    if (!line.empty()) print(conversation.reply(line, show), arguments);
  }
  if (asks) std::cout << std::endl;
}

void check(const SampleArguments& arguments) {
  if (!arguments.prompt && !arguments.chat)
    throw usage_error("accrue sample", "--prompt TEXT, or --chat for a conversation", "neither",
                      "--prompt \"Once upon a time\"");
  if (!arguments.prompt && arguments.json)
    throw usage_error("accrue sample --json", "--prompt TEXT: one object for one answer",
                      "a conversation", "--prompt, or leaving --json out");
  if (!arguments.system.empty() && !arguments.chat)
    throw usage_error("accrue sample --system", "--chat, whose template has a place for it",
                      "a text to continue", "--chat");
}

int run_sample(const SampleArguments& arguments) {
  check(arguments);
  TextModelOrigin origin = arguments.origin;
  if (!arguments.compute.empty()) origin.compute = models::compute_words.find(arguments.compute);
  const TextModel text_model = load_text_model(origin);
  if (arguments.chat) {
    Conversation conversation(text_model, arguments.answer, arguments.system);
    if (!arguments.prompt)
      converse(conversation, arguments);
    else
      print(conversation.reply(*arguments.prompt, shown_unless_json(arguments)), arguments);
    return 0;
  }
  models::Decoding decoding(*text_model.model);
  const TextCallback tell = shown_unless_json(arguments);
  print(make_answer(text_model, decoding, text_model.encode(*arguments.prompt), arguments.answer,
                    tell, tell),
        arguments);
  return 0;
}

void add_sampling_options(CLI::App& verb, AnswerOptions& answer) {
  models::GenerateOptions& options = answer.generate;
  verb.add_option("--tokens", options.max_tokens, "Tokens to add, at most")
      ->capture_default_str()
      ->type_name("N");
  verb.add_option("--temperature", options.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->type_name("T");
  verb.add_option("--top-k", options.top_k, "Choose among the K likeliest tokens; 0: among all")
      ->capture_default_str()
      ->type_name("K");
  verb.add_option("--top-p", options.top_p,
                  "Choose among the fewest likeliest tokens that have this share of probability")
      ->capture_default_str()
      ->type_name("P");
  verb.add_option("--repetition-penalty", answer.repetition_penalty,
                  "Above 1: tokens that the text has become less likely (default: the model's, or "
                  "1)")
      ->type_name("R");
  verb.add_option("--no-repeat-ngram", answer.no_repeat_ngram,
                  "So many tokens in a row occur once (default: the model's, or 0: as they come)")
      ->type_name("N");
  verb.add_option("--stop", answer.stop, "End before this text (may be given several times)")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  verb.add_option("--seed", options.seed, "Of the draws")->capture_default_str()->type_name("N");
}

}  // namespace

void add_sample(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("sample", "Generate text with a model, or chat with it");
  set_help(*verb,
           {.heading = heading::models,
            .text = "The text goes to stdout as it is generated, up to the model's end of text. "
                    "The same arguments give the same text. With --chat and no --prompt each line "
                    "of standard input is a message; Ctrl-D ends.",
            .examples = {
                "accrue sample runs/first --prompt \"def main(\" --tokens 200 --temperature 0.7",
                "accrue sample models/smollm2-instruct --chat --top-p 0.95"}});
  auto arguments = std::make_shared<SampleArguments>();
  verb->add_option("RUN_DIR_OR_FOLDER", arguments->origin.from,
                   "Folder of a run, a Hugging Face folder, or a GGUF file")
      ->required();
  verb->add_option("--prompt", arguments->prompt, "Text to continue; with --chat a message")
      ->type_name("TEXT");
  verb->add_option("--checkpoint", arguments->origin.step,
                   "Step of a run (default: the newest checkpoint)")
      ->type_name("STEP");
  verb->add_flag("--chat", arguments->chat, "Answer messages, by the tokenizer's chat template");
  verb->add_option("--system", arguments->system, "With --chat: what stands before all messages")
      ->type_name("TEXT");
  add_sampling_options(*verb, arguments->answer);
  verb->add_option("--compute", arguments->compute,
                   "Precision of products (default: the run's; of a folder fp32)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp64"}));
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] { action = [=] { return run_sample(*arguments); }; });
}

}  // namespace accrue::cli
