#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "accrue/core/units.h"
#include "accrue/train/config.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "cli/process/program.h"
#include "train/plan/setup.h"
#include "train/workload/data_summary.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;

struct DataArguments {
  std::string config;
  std::int64_t shown = 3;
  bool json = false;
  std::vector<std::string> overrides;
};

Json to_json(const train::ShownSample& sample) {
  Json parts = Json::array();
  for (const train::ShownPart& part : sample.parts) {
    Json& shown = parts.emplace_back(
        Json{{"text", part.text}, {"tokens", part.tokens}, {"learned", part.is_learned}});
    if (!part.sequence.empty()) shown["sequence"] = part.sequence;
  }
  return {{"index", sample.index}, {"parts", std::move(parts)}};
}

Json image_summary_to_json(const train::DataSummary& data) {
  const auto& [channels, height, width] = data.images->shape;
  return {{"samples", data.samples},
          {"image", {channels, height, width}},
          {"classes", data.images->classes},
          {"masks", data.images->has_masks},
          {"remarks", data.remarks}};
}

Json to_json(const train::DataSummary& data) {
  if (data.images) return image_summary_to_json(data);
  Json out{{"samples", data.samples},
           {"tokens", data.tokens},
           {"learned_tokens", data.learned},
           {"duplicates", data.duplicates},
           {"lengths",
            {{"least", data.lengths.least},
             {"median", data.lengths.median},
             {"mean", data.lengths.mean},
             {"most", data.lengths.most}}},
           {"remarks", data.remarks},
           {"shown", Json::array()}};
  for (const train::SourceSummary& source : data.sources)
    out["sources"].push_back({{"path", source.path},
                              {"weight", source.weight},
                              {"samples", source.samples},
                              {"tokens", source.tokens}});
  for (const train::ShownSample& sample : data.shown) out["shown"].push_back(to_json(sample));
  return out;
}

Json to_json(const train::DataReport& report) {
  Json out{{"train", to_json(report.train)}};
  if (report.val) out["val"] = to_json(*report.val);
  if (report.train.images) {
    out["window"] = {{"samples", report.window.samples},
                     {"micro_batch", report.window.micro_batch},
                     {"windows_per_epoch", report.window.windows_per_epoch}};
    return out;
  }
  out["window"] = {{"samples", report.window.samples},
                   {"tokens", report.window.tokens},
                   {"learned_tokens", report.window.learned},
                   {"micro_batch", report.window.micro_batch},
                   {"padding", report.window.padding},
                   {"windows_per_epoch", report.window.windows_per_epoch}};
  if (report.vocab > 0) out["vocab"] = report.vocab;
  return out;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%%", 100 * share);
  return text;
}

std::string weight_in_words(double weight) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", weight);
  return text;
}

std::string learned_in_words(std::int64_t learned, std::int64_t tokens) {
  return std::to_string(learned) + " learned (" +
         percent(static_cast<double>(learned) / static_cast<double>(tokens)) + ")";
}

/// One line of a terminal, whatever the text contains.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 160;
  std::string line = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  if (line.size() <= longest) return line;
  std::size_t cut = longest;
  while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80) --cut;
  return line.substr(0, cut) + "...";
}

/// The learned part of a pair is its answers.
std::string label_of(const train::ShownPart& part) {
  if (!part.is_learned) return "  given";
  return part.sequence.empty() ? "  learned" : "  " + part.sequence;
}

/// The names of the classes: all of them if they are few.
std::string classes_in_words(const std::vector<std::string>& classes) {
  constexpr std::size_t most = 10;
  std::string text = std::to_string(classes.size()) + " classes";
  for (std::size_t i = 0; i < std::min(most, classes.size()); ++i)
    text += (i == 0 ? ": " : ", ") + classes[i];
  return text + (classes.size() > most ? ", ..." : "");
}

void print_images(const char* name, const train::DataSummary& data) {
  const auto& [channels, height, width] = data.images->shape;
  print_row(name, std::to_string(data.samples) +
                      (channels == 3 ? " images in colour" : " grey images") + " of " +
                      std::to_string(height) + " x " + std::to_string(width) + ", " +
                      (data.images->has_masks ? "masks of " : "") +
                      classes_in_words(data.images->classes));
  for (const std::string& remark : data.remarks) print_row("note", remark);
}

void print(const char* name, const train::DataSummary& data) {
  if (data.images) return print_images(name, data);
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  print_row(name, number(data.samples) + " samples, " + number(data.tokens) + " tokens, " +
                      learned_in_words(data.learned, data.tokens));
  print_row("lengths", "least " + number(data.lengths.least) + ", median " +
                           number(data.lengths.median) + ", mean " +
                           format_count(data.lengths.mean) + ", most " + number(data.lengths.most));
  for (const train::SourceSummary& source : data.sources)
    print_row("source", source.path + ", weight " + weight_in_words(source.weight) + ": " +
                            number(source.samples) + " samples, " + number(source.tokens) +
                            " tokens");
  print_row("duplicates", number(data.duplicates) + " samples are as an earlier one");
  for (const std::string& remark : data.remarks) print_row("note", remark);
  for (const train::ShownSample& sample : data.shown) {
    print_row("sample", number(sample.index));
    for (const train::ShownPart& part : sample.parts)
      print_row(label_of(part).c_str(),
                shortened(part.text) + " (" + number(part.tokens) + " tokens)");
  }
}

void print(const train::WindowSummary& window) {
  print_row("first batch", std::to_string(window.samples) + " samples, " +
                               std::to_string(window.tokens) + " tokens, " +
                               learned_in_words(window.learned, window.tokens));
  print_row("padding", percent(window.padding) + " of what micro-batches of " +
                           std::to_string(window.micro_batch) + " compute");
  print_row("batches", std::to_string(window.windows_per_epoch) + " an epoch");
}

void print_batches(const train::DataReport& report) {
  if (report.train.images) {
    print_row("batches", std::to_string(report.window.windows_per_epoch) + " an epoch, of " +
                             std::to_string(report.window.samples) + " images");
    return;
  }
  print(report.window);
  if (report.vocab > 0) print_row("vocabulary", std::to_string(report.vocab));
}

int run_data(const DataArguments& arguments, const Program& program) {
  const train::Config config = program.load_config(arguments.config, arguments.overrides);
  train::use_threads(config.run.threads);
  const train::DataReport report =
      train::summarize_data(config, arguments.shown, progress_on_stderr());
  if (arguments.json) {
    std::cout << to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
    return 0;
  }
  print("train", report.train);
  if (report.val) print("val", *report.val);
  print_batches(report);
  return 0;
}

}  // namespace

void add_data(CLI::App& app, Action& action, const Program& program) {
  constexpr std::int64_t most_shown = 1000;
  CLI::App* verb = app.add_subcommand("data", "Show what a config's data contain");
  verb->allow_extras();
  set_help(
      *verb,
      {.heading = heading::data,
       .text = "Shows samples, lengths, duplicates, the share of tokens that count in the loss, "
               "some samples with the part that is learned, and the first batch; of images their "
               "number, shape, classes and changes. Reads all samples and makes no model.",
       .examples = {"accrue data gpt.toml", "accrue data gpt.toml --show 10 --json"}});
  auto arguments = std::make_shared<DataArguments>();
  add_needed_config(*verb, arguments->config);
  verb->add_option("--show", arguments->shown, "Samples to show")
      ->check(integer_in(0, most_shown))
      ->capture_default_str()
      ->type_name("N");
  verb->add_flag("--json", arguments->json, "Print one JSON object");
  verb->callback([=, &action, &program] {
    expect_config(arguments->config);
    arguments->overrides = take_overrides(*verb);
    action = [=, &program] { return run_data(*arguments, program); };
  });
}

}  // namespace accrue::cli
