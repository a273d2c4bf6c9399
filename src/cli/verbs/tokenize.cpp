#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/train/config.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "train/plan/setup.h"
#include "train/workload/token_files.h"

namespace accrue::cli {
namespace {

struct TokenizeArguments {
  std::string config;
  std::string out;
  bool json = false;
  std::vector<std::string> overrides;
};

std::int64_t all_tokens(const train::TokenFiles& written) {
  std::int64_t tokens = 0;
  for (const train::TokenFile& file : written.files) tokens += file.tokens;
  return tokens;
}

nlohmann::json to_json(const train::TokenFiles& written) {
  nlohmann::json out{{"files", nlohmann::json::array()},
                     {"tokens", all_tokens(written)},
                     {"vocab", written.vocab}};
  for (const train::TokenFile& file : written.files)
    out["files"].push_back({{"path", file.path.string()}, {"tokens", file.tokens}});
  return out;
}

int run_tokenize(const TokenizeArguments& arguments) {
  const train::Config config = train::load_config(arguments.config, arguments.overrides);
  train::use_threads(config.run.threads);
  const train::TokenFiles written =
      train::write_token_files(config, arguments.out, progress_on_stderr());
  if (arguments.json) {
    std::cout << to_json(written).dump(2) << std::endl;
    return 0;
  }
  for (const train::TokenFile& file : written.files)
    print_row(file.path.filename().c_str(),
              std::to_string(file.tokens) + " tokens, " + file.path.string());
  print_row("vocabulary", std::to_string(written.vocab));
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("tokenize", "Write a config's text as files of token ids");
  verb->allow_extras();
  set_help(
      *verb,
      {.heading = heading::data,
       .text = "Writes DIR/train.bin and, if the config holds data out, DIR/val.bin: uint16 ids as "
               "nanoGPT has them, or uint32 behind llm.c's header if the vocabulary is above "
               "65,535. Training on these files takes the same samples as training on the text "
               "files; JSON lines are joined.",
       .examples = {
           "accrue tokenize gpt.toml --out data/tokens",
           "accrue tokenize gpt.toml --data.tokenizer=gpt2/tokenizer.json --out data/tokens"}});
  auto arguments = std::make_shared<TokenizeArguments>();
  add_needed_config(*verb, arguments->config);
  verb->add_option("--out", arguments->out, "Folder to write")->required()->type_name("DIR");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action] {
    expect_config(arguments->config);
    arguments->overrides = take_overrides(*verb);
    action = [=] { return run_tokenize(*arguments); };
  });
}

}  // namespace accrue::cli
