#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "accrue/data/tokenizer.h"
#include "accrue/train/run_directory.h"
#include "commands/commands.h"
#include "commands/trained_text.h"
#include "models/generate.h"

namespace accrue::cli {
namespace {

struct SampleArguments {
  std::string run;
  std::string prompt;
  std::optional<std::int64_t> checkpoint;
  models::GenerateOptions generate{.temperature = 0.8};
};

/// The prompt and what the model adds, up to the end of a text.
std::string continued(models::LanguageModel& model, const data::Tokenizer& tokenizer,
                      const SampleArguments& arguments) {
  std::vector<std::int64_t> prompt = tokenizer.around().before;
  const std::vector<std::int64_t> words = tokenizer.encode(arguments.prompt);
  prompt.insert(prompt.end(), words.begin(), words.end());
  std::vector<std::int64_t> ids = models::generate(model, prompt, arguments.generate);
  if (const std::optional<std::int64_t> end = tokenizer.end_of_text())
    ids.erase(std::find(ids.begin() + std::ssize(prompt), ids.end(), *end), ids.end());
  // A model may have more ids than the tokenizer.
  std::erase_if(ids, [&](std::int64_t id) { return !tokenizer.has(id); });
  return tokenizer.decode(ids, /*skip_special=*/true);
}

int run_sample(const SampleArguments& arguments) {
  const train::TrainedModel trained =
      train::load_trained_model(train::RunDirectory(arguments.run), arguments.checkpoint);
  models::LanguageModel& model =
      expect_language_model(trained, "accrue sample", "accrue predict " + arguments.run + " IMAGES",
                            "a run of a language model; this one's module is its own");
  if (!trained.tokenizer.empty()) {
    std::cout << continued(model, *data::Tokenizer::open(trained.tokenizer, "accrue sample"),
                           arguments)
              << std::endl;
    return 0;
  }
  if (!trained_on_bytes(trained))
    throw usage_error("accrue sample", "a model of text",
                      "a run on token files, whose tokenizer accrue does not know",
                      "accrue export, and sampling with that tokenizer");
  std::cout << data::bytes_to_text(models::generate(model, data::text_to_bytes(arguments.prompt),
                                                    arguments.generate))
            << std::endl;
  return 0;
}

}  // namespace

void add_sample(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("sample", "Let a trained model continue a text");
  verb->footer(
      "The text goes to stdout. The same arguments give the same text.\n\n"
      "Example:\n"
      "  accrue sample runs/first --prompt \"def main(\" --tokens 200 --temperature 0.7");
  auto arguments = std::make_shared<SampleArguments>();
  models::GenerateOptions& options = arguments->generate;
  verb->add_option("RUN_DIR", arguments->run, "Folder of a run")->required();
  verb->add_option("--prompt", arguments->prompt, "Text to continue")->required();
  verb->add_option("--checkpoint", arguments->checkpoint, "Step (default: the newest checkpoint)")
      ->type_name("STEP");
  verb->add_option("--tokens", options.max_tokens, "Tokens to add")
      ->capture_default_str()
      ->type_name("N");
  verb->add_option("--temperature", options.temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->type_name("T");
  verb->add_option("--top-k", options.top_k, "Choose among the K likeliest tokens; 0: among all")
      ->capture_default_str()
      ->type_name("K");
  verb->add_option("--seed", options.seed, "Of the draws")->capture_default_str()->type_name("N");
  verb->callback([=, &action] { action = [=] { return run_sample(*arguments); }; });
}

}  // namespace accrue::cli
