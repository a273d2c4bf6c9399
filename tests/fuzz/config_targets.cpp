// Configs, overrides on the command line, and the JSON files of folders in Hugging Face's and
// PEFT's format.
#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue/train/config.h"
#include "accrue/train/run_record.h"
#include "fuzz_targets.h"
#include "models/files/config/adapter_config.h"
#include "models/files/config/bert_config.h"
#include "models/files/config/generation_config.h"
#include "models/files/config/gpt2_config.h"
#include "models/files/config/llama_config.h"
#include "scratch.h"

namespace accrue::fuzz {
namespace {

/// The config that a run keeps reads back as the same.
void expect_reads_back(const train::Config& config) {
  const std::string text = train::to_toml(config);
  const train::Config again = train::parse_config(text, "config.toml");
  expect(train::differences(config, again).empty(), "config.toml reads back to the same config");
  expect(train::to_toml(again) == text, "config.toml is written the same way twice");
}

constexpr const char* whole_config =
    "[run]\nout = \"out\"\nsteps = 4\n[data]\ntrain = [\"a.txt\"]\n[batch]\nsamples = 8\n";

}  // namespace

void fuzz_config(Input input) {
  train::Config config;
  config = train::parse_config(std::string(text_of(input)), "fuzz.toml");
  expect_reads_back(config);
}

/// One override per line.
void fuzz_overrides(Input input) {
  std::vector<std::string> overrides;
  std::istringstream lines{std::string(text_of(input))};
  for (std::string line; std::getline(lines, line);) overrides.push_back(line);
  expect_reads_back(train::parse_config(whole_config, "fuzz.toml", overrides));
}

void fuzz_run_record(Input input) {
  const train::RunDirectory run(put("run/run.json", input).parent_path());
  const auto record = train::read_run_record(run);
  expect(train::config_to_repeat(*record).run.threads > 0, "a repetition has threads");
}

void fuzz_gpt2_config(Input input) {
  const models::Gpt2Options options =
      models::parse_gpt2_config(std::string(text_of(input)), "config.json", {});
  expect(options.layers > 0 && options.heads > 0 && options.width > 0 && options.context > 0 &&
             options.vocab > 0,
         "an accepted model has a shape");
  const models::Gpt2Options again =
      models::parse_gpt2_config(models::make_gpt2_config(options), "config.json", {});
  expect(again.layers == options.layers && again.heads == options.heads &&
             again.width == options.width && again.ffn_width == options.ffn_width &&
             again.context == options.context && again.vocab == options.vocab &&
             again.norm_eps == options.norm_eps,
         "config.json reads back to the same shape");
}

void fuzz_bert_config(Input input) {
  const models::BertOptions options =
      models::parse_bert_config(std::string(text_of(input)), "config.json", {});
  expect(options.layers > 0 && options.heads > 0 && options.width > 0 && options.ffn_width > 0 &&
             options.context > 0 && options.vocab > 0 && options.token_types > 0,
         "an accepted model has a shape");
  const models::BertOptions again =
      models::parse_bert_config(models::make_bert_config(options), "config.json", {});
  expect(again.layers == options.layers && again.heads == options.heads &&
             again.width == options.width && again.ffn_width == options.ffn_width &&
             again.context == options.context && again.vocab == options.vocab &&
             again.token_types == options.token_types && again.norm_eps == options.norm_eps,
         "config.json reads back to the same shape");
}

void fuzz_generation_config(Input input) {
  const std::string text(text_of(input));
  const models::GenerationConfig config =
      models::parse_generation_config(text, "generation_config.json");
  for (const std::int64_t token : config.end_tokens) expect(token >= 0, "an end token is an id");
  const auto stated = models::parsed_config(text);
  expect(stated.has_value(), "what is accepted is an object");
  expect(models::stated_special_tokens(*stated).ends == config.end_tokens,
         "both readers find the same ends");
  constexpr std::int64_t vocab = 16;
  models::check_rules(config.rules, vocab);
  const std::vector<std::int64_t> tokens{1, 2, 1, 2, 1};
  const std::vector<double> ruled = models::ruled_logits(
      std::vector<double>(vocab, 0.5), config.rules,
      {.tokens = tokens, .given = 3, .most = 6, .ends = config.end_tokens}, /*in_fp32=*/true);
  expect(std::ssize(ruled) == vocab, "rules leave a logit for each token");
}

void fuzz_llama_config(Input input) {
  const models::LlamaOptions options =
      models::parse_llama_config(std::string(text_of(input)), "config.json", {});
  expect(options.layers > 0 && options.heads > 0 && options.kv_heads > 0 && options.width > 0 &&
             options.ffn_width > 0 && options.context > 0 && options.vocab > 0,
         "an accepted model has a shape");
  const models::LlamaOptions again =
      models::parse_llama_config(models::make_llama_config(options), "config.json", {});
  expect(again.variant == options.variant && again.head_width == options.head_width,
         "config.json reads back to the same model");
}

void fuzz_adapter_config(Input input) {
  const models::AdapterOptions options =
      models::parse_adapter_config(std::string(text_of(input)), "adapter_config.json");
  expect(options.rank > 0 && options.alpha > 0, "an accepted adapter has a rank and a scale");
  const std::vector<std::string> linear{"model.layers.0.mlp.up_proj", "model.layers.1.mlp.up_proj"};
  const std::string written =
      models::make_adapter_config(options, "base", {linear.front()}, linear);
  expect(models::parse_adapter_config(written, "adapter_config.json") == options,
         "adapter_config.json reads back to the same options");
}

}  // namespace accrue::fuzz
