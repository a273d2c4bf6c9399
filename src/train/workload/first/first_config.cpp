#include "train/workload/first_config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "core/words.h"
#include "memory/estimate.h"
#include "train/config/toml/value.h"

namespace accrue::train {
namespace {

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

std::string quoted(const std::string& text) { return to_toml(Value{text}); }

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + quoted(name);
  return "[" + text + "]";
}

/// TOML with a comment beside each key.
class Page {
 public:
  explicit Page(const std::string& first) : text_("# " + first + "\n") {}
  void remark(const std::string& text) { text_ += "# " + text + "\n"; }
  void section(const char* name) { text_ += std::string("\n[") + name + "]\n"; }
  void key(const char* name, const std::string& value, const std::string& why = {}) {
    std::string line = std::string(name) + " = " + value;
    constexpr std::size_t kColumn = 30;
    if (!why.empty()) {
      line.resize(std::max(line.size() + 1, kColumn), ' ');
      line += "# " + why;
    }
    text_ += line + "\n";
  }
  void key(const char* name, std::int64_t value, const std::string& why = {}) {
    key(name, std::to_string(value), why);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A language model's shape and how it trains.
struct TextChoice {
  std::int64_t layers, heads, width, context, batch;
  double lr;
};

TextChoice choice_for(double tokens) {
  constexpr double kSmall = 3e6, kMiddle = 5e7;
  if (tokens < kSmall)
    return {.layers = 4, .heads = 4, .width = 128, .context = 128, .batch = 1024, .lr = 2e-3};
  if (tokens < kMiddle)
    return {.layers = 6, .heads = 4, .width = 256, .context = 256, .batch = 4096, .lr = 1e-3};
  return {.layers = 8, .heads = 8, .width = 512, .context = 512, .batch = 8192, .lr = 6e-4};
}

std::int64_t parameters_of(const TextChoice& choice, std::int64_t vocab) {
  return memory::gpt2_parameters({.layers = choice.layers,
                                  .width = choice.width,
                                  .heads = choice.heads,
                                  .tokens = choice.context},
                                 vocab);
}

/// Halves context and batch until a batch is no more than a tenth of the data.
void fit_to_amount(TextChoice& choice, std::int64_t tokens) {
  constexpr std::int64_t kLeastContext = 8, kSamples = 40, kBatches = 10;
  while (choice.context * kSamples > tokens && choice.context > kLeastContext) choice.context /= 2;
  while (choice.batch * kBatches > tokens && choice.batch > choice.context) choice.batch /= 2;
  if (choice.context * kSamples > tokens)
    throw usage_error(
        "accrue init",
        "at least " + std::to_string(kLeastContext * kSamples) + " tokens to train on",
        std::to_string(tokens), "more data");
}

/// Steps of about four passes over the data: more passes where data are few, fewer where they are
/// many.
std::int64_t steps_for(double per_epoch) {
  constexpr double kPasses = 4, kMostPasses = 40, kLeast = 1000, kMost = 5000;
  const double steps = std::clamp(kPasses * per_epoch, kLeast, kMost);
  return std::max<std::int64_t>(20, std::llround(std::min(steps, kMostPasses * per_epoch)));
}

double held_out_fraction(const DataFacts& data) {
  constexpr std::int64_t kMuch = 3'000'000;
  if (!data.val.empty()) return 0;
  return data.tokens > kMuch ? 0.02 : 0.1;
}

std::string name_of_run(const DataFacts& data) {
  std::filesystem::path path(data.train.front());
  while (path.string().find('*') != std::string::npos) path = path.parent_path();
  const std::string stem = path.stem().string();
  return "runs/" + (stem.empty() || stem == "." || stem == ".." ? "first" : stem);
}

void write_data(Page& page, const DataFacts& data, const std::string& what) {
  page.section("data");
  page.key("train", list_of(data.train), what);
  if (!data.val.empty())
    page.key("val", list_of(data.val), "held out: evaluated, never trained on");
  else
    page.key("val_fraction", decimal(held_out_fraction(data)),
             "the last part of the data is held out to be evaluated");
  page.key("format", quoted(std::string(to_string(data.format))), "text, tokens, jsonl or images");
}

void write_precision(Page& page, const MachineFacts& machine) {
  page.section("precision");
  if (machine.multiplies_bf16)
    page.key("compute", quoted("bf16"),
             "this machine has instructions for it; weights and sums stay fp32");
  else
    page.key("compute", quoted("fp32"), "this machine has no instructions for bf16");
}

void write_rest(Page& page, double lr, const std::string& lr_why) {
  page.section("memory");
  page.key(
      "budget", quoted("auto"),
      "what the process may hold: the cgroup's limit or the free memory; divided by torchrun's "
      "ranks, a size with mpirun or srun");
  page.section("optim");
  page.key("kind", quoted("adamw"));
  page.key("lr", decimal(lr), lr_why);
  page.key("schedule", "{kind = \"cosine\", warmup = \"5%\", min_lr = " + decimal(lr / 10) + "}",
           "of the run's steps; min_lr is absolute");
}

void write_run(Page& page, const DataFacts& data, std::int64_t steps, double per_epoch) {
  page.section("run");
  page.key("out", quoted(name_of_run(data)), "the run's folder: metrics and checkpoints");
  page.key("steps", steps,
           "optimizer steps, about " + decimal(static_cast<double>(steps) / per_epoch) +
               " passes over the data");
  page.key("eval_every", quoted("10%"), "of the run");
}

std::int64_t up_to_multiple(std::int64_t value, std::int64_t of) {
  return (value + of - 1) / of * of;
}

/// The samples are lines: none is longer than the context, and short ones share rows.
void fit_to_lines(TextChoice& choice, const DataFacts& data) {
  constexpr std::int64_t kMultiple = 32;
  choice.context = up_to_multiple(data.longest, kMultiple);
  choice.batch = std::max(choice.batch, choice.context);
}

bool is_worth_packing(const DataFacts& data) {
  return 2 * data.tokens < data.longest * data.samples;
}

void start_from_model(TextChoice& choice, const DataFacts& data) {
  constexpr std::int64_t kSamples = 8;
  choice.lr = 1e-4;
  if (data.model_context > 0) choice.context = data.model_context;
  if (data.format != data::Format::jsonl) choice.batch = kSamples * choice.context;
}

void write_language_model(Page& page, const DataFacts& data, const MachineFacts& machine) {
  const double train_part = 1 - held_out_fraction(data);
  const double tokens = static_cast<double>(data.tokens) * train_part;
  TextChoice choice = choice_for(tokens);
  const bool is_lines = data.format == data::Format::jsonl, starts_from = !data.model.empty();
  fit_to_amount(choice, static_cast<std::int64_t>(tokens));
  if (is_lines) fit_to_lines(choice, data);
  if (starts_from) start_from_model(choice, data);
  const double per_epoch = tokens / static_cast<double>(choice.batch);
  const std::int64_t steps = steps_for(per_epoch);

  write_run(page, data, steps, per_epoch);
  page.section("model");
  page.key("kind", quoted("gpt2"));
  if (starts_from) {
    page.key("from", quoted(data.model.string()), "starts from these weights, in their shape");
  } else {
    page.key("layers", choice.layers,
             "with this width " +
                 format_count(static_cast<double>(parameters_of(choice, data.vocab))) +
                 " parameters, for " + format_count(tokens) + " tokens");
    page.key("heads", choice.heads);
    page.key("width", choice.width);
  }
  if (!starts_from)
    page.key("context", choice.context,
             is_lines ? "tokens: as many as the longest line has, rounded up"
                      : "tokens that a prediction may look back on");
  if (data.has_ids && !starts_from)
    page.key("vocab", data.vocab, "no id in the data is larger; state your tokenizer's own size");
  if (!starts_from && static_cast<double>(steps) > 3 * per_epoch)
    page.key("dropout", "0.1", "the data are seen several times");

  write_data(page, data,
             is_lines ? counted(data.samples, "line") + ", " +
                            format_count(static_cast<double>(data.tokens)) + " tokens"
                      : format_count(static_cast<double>(data.tokens)) +
                            (data.has_ids ? " tokens" : " bytes, each a token"));
  if (is_lines && is_worth_packing(data))
    page.key("packing", "true", "short lines share a row, each seeing only itself");
  page.section("batch");
  constexpr const char* kOneStep =
      "one optimizer step; how many run at once follows from the memory";
  if (starts_from && !is_lines)
    page.key("samples", choice.batch / choice.context, kOneStep);
  else
    page.key("tokens", choice.batch, kOneStep);
  write_precision(page, machine);
  write_rest(page, choice.lr,
             starts_from ? "small, as the weights are trained already"
                         : "usual for this width; halve it where the loss jumps");
}

void write_classifier(Page& page, const DataFacts& data) {
  constexpr std::int64_t kBatch = 64, kManyImages = 5000;
  const double images = static_cast<double>(data.samples) * (1 - held_out_fraction(data));
  std::int64_t batch = kBatch;
  while (static_cast<double>(batch) * 4 > images && batch > 4) batch /= 2;
  const double per_epoch = images / static_cast<double>(batch);
  write_run(page, data, steps_for(per_epoch), per_epoch);
  page.section("model");
  page.key("kind", quoted("resnet"),
           std::to_string(data.vocab) + " classes, images of " +
               std::to_string(data.image->height) + " x " + std::to_string(data.image->width));
  page.key("layers", data.samples > kManyImages ? 20 : 8, "6n + 2");
  page.key("width", 16, "channels of the first stage");
  page.key("batchnorm", quoted("convert-group"),
           "group normalisation: does not depend on how a batch is split");
  write_data(page, data, counted(data.samples, "image"));
  page.section("batch");
  page.key("samples", batch, "one optimizer step; how many run at once follows from the memory");
  write_rest(page, 2e-3, "halve it where the loss jumps");
}

}  // namespace

std::string first_config(const DataFacts& data, const MachineFacts& machine,
                         const std::string& command) {
  Page page("Written by `" + command + "`: every value is a choice to look at.");
  page.remark("Any key can be overridden on the command line: --optim.lr=1e-3");
  if (data.format == data::Format::images) {
    write_classifier(page, data);
  } else {
    write_language_model(page, data, machine);
  }
  return page.text();
}

}  // namespace accrue::train
