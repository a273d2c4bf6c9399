#include "train/workload/first/first_config.h"

#include <cstddef>

#include "accrue/core/units.h"
#include "core/words.h"
#include "memory/estimate.h"
#include "train/workload/first/page.h"
#include "train/workload/first/text_choice.h"

namespace accrue::train {
namespace {

constexpr std::size_t names_on_page = 10;

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + quoted(name);
  return "[" + text + "]";
}

std::int64_t parameters_of(const TextChoice& choice, std::int64_t vocab) {
  return memory::gpt2_parameters({.layers = choice.layers,
                                  .width = choice.width,
                                  .heads = choice.heads,
                                  .tokens = choice.context},
                                 vocab);
}

double held_out_fraction(const DataFacts& data) {
  constexpr std::int64_t kMuch = 3'000'000;
  if (!data.val.empty()) return 0;
  return data.tokens > kMuch ? 0.02 : 0.1;
}

void write_data(Page& page, const DataFacts& data, const std::string& what) {
  page.section("data");
  page.key("train", list_of(data.train), what);
  if (!data.val.empty())
    page.key("val", list_of(data.val), "held out: evaluated, never trained on");
  else
    page.key("val_fraction", decimal(held_out_fraction(data)),
             "the last part of the data is held out to be evaluated");
  page.key("format", quoted(std::string(to_string(data.format))),
           "text, tokens, jsonl, chat, parquet or images");
  if (!data.unread.empty()) page.remark("not read: " + first_few(data.unread, names_on_page));
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
  page.key("out", quoted(data.run_name()), "the run's folder: metrics and checkpoints");
  page.key("steps", steps,
           "optimizer steps, about " + decimal(static_cast<double>(steps) / per_epoch) +
               " passes over the data");
  page.key("eval_every", quoted("10%"), "of the run");
}

bool is_worth_packing(const DataFacts& data) {
  return data.has_lines() && 2 * data.tokens < data.longest * data.samples;
}

void write_origin(Page& page, const ModelFacts& model) {
  page.key("kind", quoted(std::string(to_string(model.kind))));
  page.key("from", quoted(model.from), "starts from these weights, in their shape");
}

/// The trained part: a model's weights, or a new model.
void write_model(Page& page, const DataFacts& data, const TextChoice& choice, double tokens,
                 double passes) {
  page.section("model");
  if (!data.model.from.empty()) {
    write_origin(page, data.model);
  } else {
    page.key("kind", quoted("gpt2"));
    page.key("layers", choice.layers,
             "with this width " +
                 format_count(static_cast<double>(parameters_of(choice, data.vocab))) +
                 " parameters, for " + format_count(tokens) + " tokens");
    page.key("heads", choice.heads);
    page.key("width", choice.width);
  }
  page.key("context", choice.context,
           data.has_lines() ? "tokens: as many as the longest line has, rounded up"
                            : "tokens that a prediction may look back on");
  if (!data.model.from.empty()) return;
  if (data.has_ids)
    page.key("vocab", data.vocab, "no id in the data is larger; state your tokenizer's own size");
  if (passes > 3) page.key("dropout", "0.1", "the data are seen several times");
}

void write_adapter(Page& page, std::int64_t rank) {
  page.section("lora");
  page.key("rank", rank, "adapters of this rank are trained, and the weights stay as they are");
  page.key("alpha", 2 * rank, "what the adapters give counts alpha / rank times");
}

std::string amount_of(const DataFacts& data) {
  const std::string tokens = format_count(static_cast<double>(data.tokens));
  if (data.has_lines()) return counted(data.samples, "line") + ", " + tokens + " tokens";
  if (data.has_ids) return tokens + " tokens";
  if (!data.tokenizer.empty()) return tokens + " tokens by " + data.tokenizer;
  return tokens + " bytes, each a token";
}

void write_language_model(Page& page, const DataFacts& data, const MachineFacts& machine,
                          const FirstConfigOptions& wishes) {
  const bool starts_from = !data.model.from.empty();
  const auto tokens =
      static_cast<std::int64_t>(static_cast<double>(data.tokens) * (1 - held_out_fraction(data)));
  const TextChoice choice = starts_from ? choice_from_model(data, tokens, wishes.adapter)
                                        : choice_from_nothing(data, tokens);
  const double per_epoch = static_cast<double>(tokens) / static_cast<double>(choice.batch);

  write_run(page, data, choice.steps, per_epoch);
  write_model(page, data, choice, static_cast<double>(tokens),
              static_cast<double>(choice.steps) / per_epoch);
  if (choice.adapter_rank > 0) write_adapter(page, choice.adapter_rank);
  write_data(page, data, amount_of(data));
  if (is_worth_packing(data))
    page.key("packing", "true", "short lines share a row, each seeing only itself");
  page.section("batch");
  constexpr const char* kOneStep =
      "one optimizer step; how many run at once follows from the memory";
  if (starts_from && !data.has_lines())
    page.key("samples", choice.batch / choice.context, kOneStep);
  else
    page.key("tokens", choice.batch, kOneStep);
  write_precision(page, machine);
  write_rest(page, choice.lr, choice.lr_why);
}

void write_classifier(Page& page, const DataFacts& data) {
  constexpr std::int64_t kBatch = 64, kManyImages = 5000;
  const double images = static_cast<double>(data.samples) * (1 - held_out_fraction(data));
  std::int64_t batch = kBatch;
  while (static_cast<double>(batch) * 4 > images && batch > 4) batch /= 2;
  const double per_epoch = images / static_cast<double>(batch);
  write_run(page, data, steps_for(per_epoch), per_epoch);
  page.section("model");
  if (!data.model.from.empty()) {
    write_origin(page, data.model);
  } else {
    page.key("kind", quoted("resnet"),
             std::to_string(data.vocab) + " classes, images of " +
                 std::to_string(data.image->height) + " x " + std::to_string(data.image->width));
    page.key("layers", data.samples > kManyImages ? 20 : 8, "6n + 2");
    page.key("width", 16, "channels of the first stage");
    page.key("batchnorm", quoted("convert-group"),
             "group normalisation: does not depend on how a batch is split");
  }
  write_data(
      page, data,
      counted(data.samples, "image") +
          (data.classes.empty() ? "" : "; classes: " + first_few(data.classes, names_on_page)));
  page.section("batch");
  page.key("samples", batch, "one optimizer step; how many run at once follows from the memory");
  write_rest(page, 2e-3, "halve it where the loss jumps");
}

/// A command without the middle of a long list of files, which the shell makes of texts/*.txt.
std::string shortened_command(const std::string& command) {
  constexpr std::size_t kMost = 160, kBegin = 100, kEnd = 40;
  if (command.size() <= kMost) return command;
  const std::size_t begin = command.rfind(' ', kBegin);
  const std::size_t end = command.find(' ', command.size() - kEnd);
  if (begin == std::string::npos || end == std::string::npos) return command;
  return command.substr(0, begin) + " ..." + command.substr(end);
}

}  // namespace

std::string first_config(const DataFacts& data, const MachineFacts& machine,
                         const FirstConfigOptions& wishes) {
  Page page("Written by `" + shortened_command(wishes.command) +
            "`: every value is a choice to look at.");
  page.remark("Any key can be overridden on the command line: --optim.lr=1e-3");
  if (data.format == data::Format::images) {
    write_classifier(page, data);
  } else {
    write_language_model(page, data, machine, wishes);
  }
  return page.text();
}

}  // namespace accrue::train
