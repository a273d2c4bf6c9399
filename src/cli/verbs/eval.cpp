#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/arguments/typed_keys.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "train/run/evaluate_files.h"

namespace accrue::cli {
namespace {

struct EvalArguments {
  std::string model;
  std::vector<std::string> data;
  std::string format = "auto";
  std::optional<std::int64_t> context;
  bool json = false;
};

nlohmann::json to_json(const train::FileEvaluation& result) {
  return {{"loss", result.evaluation.loss},
          {"perplexity", result.perplexity()},
          {"tokens", result.evaluation.weight},
          {"samples", result.samples},
          {"remarks", result.remarks}};
}

std::string number(double value, const char* format) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void print(const train::FileEvaluation& result) {
  for (const std::string& remark : result.remarks) print_row("note", remark);
  print_row("loss", number(result.evaluation.loss, "%.6f"));
  print_row("perplexity", number(result.perplexity(), "%.4f"));
  print_row("tokens", number(result.evaluation.weight, "%.15g"));
  print_row("samples", std::to_string(result.samples));
}

std::optional<data::Format> format_of(const std::string& word) {
  return data::format_words.find(word);
}

/// The keys that this verb sets.
constexpr std::array eval_keys{
    TypedKey{"data.train", "--data"}, TypedKey{"data.format", "--format"},
    TypedKey{"model.context", "--context"}, TypedKey{"model.from", "MODEL"},
    TypedKey{"data.tokenizer", "the tokenizer of MODEL"}};

train::FileEvaluation evaluate(const EvalArguments& arguments) {
  try {
    return train::evaluate_files({.model = arguments.model,
                                  .files = arguments.data,
                                  .format = format_of(arguments.format),
                                  .context = arguments.context,
                                  .show = progress_on_stderr()});
  } catch (const Error& error) {
    throw in_typed_words(error, eval_keys, "accrue eval");
  }
}

int run_eval(const EvalArguments& arguments) {
  const train::FileEvaluation result = evaluate(arguments);
  if (arguments.json)
    std::cout << to_json(result).dump(2) << std::endl;
  else
    print(result);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("eval", "Compute a model's mean loss over files");
  set_help(*verb, {.heading = heading::models,
                   .text = "The loss is the mean over the tokens that count, as in evaluations "
                           "during training; perplexity is its exponential. Text becomes tokens by "
                           "the model's own tokenizer. Nothing is written.",
                   .examples = {"accrue eval runs/first --data held_out.txt",
                                "accrue eval models/gpt2 --data 'texts/*.jsonl' --json"}});
  auto arguments = std::make_shared<EvalArguments>();
  verb->add_option("MODEL", arguments->model,
                   "Run folder, a checkpoint in one, a Hugging Face folder, or a GGUF file")
      ->required();
  verb->add_option("--data", arguments->data, "Files, or patterns for them")
      ->required()
      ->type_name("FILES");
  verb->add_option("--format", arguments->format, "What they hold")
      ->check(CLI::IsMember({"auto", "text", "tokens", "jsonl", "chat"}))
      ->capture_default_str();
  verb->add_option("--context", arguments->context,
                   "Tokens of a sample of text (default: the model's, which may be many, or "
                   "all tokens of a shorter text)")
      ->check(integer_in(1))
      ->type_name("T");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] { action = [=] { return run_eval(*arguments); }; });
}

}  // namespace accrue::cli
