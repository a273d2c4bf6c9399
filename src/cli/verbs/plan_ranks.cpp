#include "cli/verbs/plan_ranks.h"

#include <cstddef>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/wrapped_text.h"
#include "cli/output/print_text.h"
#include "cli/output/text_table.h"
#include "core/printable.h"
#include "core/rates.h"
#include "core/words.h"
#include "train/measure/rank_plan.h"
#include "train/plan/plan_json.h"

namespace accrue::cli {
namespace {

using train::LayoutEntry;
using train::LayoutForecast;
using train::RankPlan;

constexpr std::size_t kRankPlanWidth = 80, kRankPlanColumn = 21;

nlohmann::json layout_json(const train::RankLayout& layout, std::int64_t ranks) {
  return {{"replicas", layout.in_stages ? 1 : ranks},
          {"stages", layout.in_stages ? ranks : 1},
          {"tensor", 1},
          {"shard", to_string(layout.state.shard)}};
}

nlohmann::json entry_json(const LayoutEntry& entry, const train::RankMachines& machines) {
  nlohmann::json out{{"layout", layout_json(entry.layout, machines.ranks)},
                     {"accumulation", train::accumulation_order_words.of(entry.layout.order)},
                     {"offload", entry.layout.offloads},
                     {"fits", entry.forecast && entry.forecast->fits},
                     {"reason", train::reason_of(entry, machines)}};
  if (!entry.forecast) return out;
  const LayoutForecast& forecast = *entry.forecast;
  out["micro_batch"] = forecast.point.micro_batch;
  out["micro_batches"] = forecast.micro_batches;
  out["recompute"] = to_string(forecast.point.recompute);
  out["predicted_peak_bytes"] = forecast.bytes.total();
  out["breakdown"] = train::to_json(forecast.bytes);
  out["transfer_bytes"] = forecast.transfer.bytes;
  out["transfer_seconds"] = forecast.transfer.seconds;
  out["compute_seconds"] = forecast.compute_seconds;
  out["waiting_seconds"] = forecast.waiting_seconds;
  out["exposed_seconds"] = forecast.exposed_seconds;
  out["seconds_per_step"] = forecast.seconds();
  if (forecast.disk) {
    out["disk_read_bytes"] = forecast.disk->bytes_read;
    out["disk_written_bytes"] = forecast.disk->bytes_written;
  }
  return out;
}

nlohmann::json rank_plan_json(const RankPlan& plan) {
  const train::RankMachines& machines = plan.machines;
  nlohmann::json out = entry_json(plan.entries[plan.chosen], machines);
  out["ranks"] = machines.ranks;
  out["nodes"] = machines.nodes;
  out["memory_bytes"] = plan.memory_bytes;
  out["outside_bytes"] = plan.outside_bytes;
  out["limit_bytes"] = machines.tensor_bytes;
  out["flops_per_second"] = machines.flops;
  out["flops_are_measured"] = plan.flops_are_measured;
  if (machines.nodes > 1) out["link_bytes_per_second"] = machines.link;
  if (machines.ranks_of_a_node() > 1) {
    out["node_link_bytes_per_second"] = machines.node_link;
    out["node_link_is_measured"] = plan.node_link_is_measured;
  }
  out["parameters"] = plan.parameters;
  out["batch_samples"] = plan.batch_samples;
  if (plan.batch_tokens > 0) out["batch_tokens"] = plan.batch_tokens;
  out["set"] = nlohmann::json::array();
  for (const train::KeyToSet& key : plan.keys)
    out["set"].push_back({{"key", key.key}, {"value", key.value}});
  out["alternatives"] = nlohmann::json::array();
  for (std::size_t i = 0; i < plan.entries.size(); ++i)
    if (i != plan.chosen) out["alternatives"].push_back(entry_json(plan.entries[i], machines));
  return out;
}

void print_hanging(const std::string& head, const std::string& text) {
  print_text("%s", hanging(head, printable_line(text), kRankPlanColumn, kRankPlanWidth).c_str());
}

/// In a few characters, for a column.
std::string seconds_in_digits(double seconds) {
  if (seconds >= 1) return format_seconds(seconds);
  char text[32];
  std::snprintf(text, sizeof text, "%.3g ms", 1000 * seconds);
  return text;
}

std::string bytes_in_digits(double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); }

void print_machines(const RankPlan& plan) {
  const train::RankMachines& machines = plan.machines;
  print_hanging("ranks", std::to_string(machines.ranks) + " on " + counted(machines.nodes, "node") +
                             ", each with " + format_bytes(plan.memory_bytes) + ", of which " +
                             format_bytes(machines.tensor_bytes) + " are for tensors");
  if (machines.nodes > 1)
    print_hanging("link", format_byte_rate(machines.link) + " between nodes, in each direction");
  if (machines.ranks_of_a_node() > 1)
    print_hanging("link in a node",
                  format_byte_rate(machines.node_link) +
                      (plan.node_link_is_measured ? ", the rate of this machine's memory, measured "
                                                    "now (state it with --node-link)"
                                                  : ", as stated"));
  print_hanging("rate of a rank",
                format_operation_rate(machines.flops) +
                    (plan.flops_are_measured ? ", this machine's in a large matrix product, "
                                               "measured now (state it with --flops)"
                                             : ", as stated"));
  std::string batch = counted(plan.batch_samples, "sample");
  if (plan.batch_tokens > 0) batch += ", " + digit_groups(plan.batch_tokens) + " tokens";
  print_hanging("batch", batch + "; a model of " +
                             format_count(static_cast<double>(plan.parameters)) + " parameters");
}

TextTable table_of(const RankPlan& plan) {
  using Side = TextTable::Side;
  TextTable table({{.title = "layout"},
                   {.title = "micro", .side = Side::right},
                   {.title = "recompute"},
                   {.title = "a rank", .side = Side::right},
                   {.title = "sends", .side = Side::right},
                   {.title = "exposed", .side = Side::right},
                   {.title = "a step", .side = Side::right}});
  for (const LayoutEntry& entry : plan.entries) {
    const std::string name = train::name_of(entry.layout);
    if (!entry.forecast) {
      table.add_row({name, "", "", "", "", "", "-"});
      continue;
    }
    const LayoutForecast& forecast = *entry.forecast;
    const double lost = forecast.waiting_seconds + forecast.exposed_seconds;
    table.add_row({name, std::to_string(forecast.point.micro_batch),
                   std::string(to_string(forecast.point.recompute)),
                   bytes_in_digits(static_cast<double>(forecast.bytes.total())),
                   bytes_in_digits(forecast.transfer.bytes),
                   forecast.fits ? seconds_in_digits(lost) : "",
                   forecast.fits ? seconds_in_digits(forecast.seconds()) : "no room"});
  }
  return table;
}

std::string keys_in_words(const std::vector<train::KeyToSet>& keys) {
  if (keys.empty()) return "nothing: the config has this layout";
  std::string text;
  for (const train::KeyToSet& key : keys)
    text += (text.empty() ? "" : ", ") + key.key + " = " + key.value;
  return text;
}

void print_as_text(const RankPlan& plan) {
  print_machines(plan);
  print_text("\n");
  for (const std::string& line : table_of(plan).lines(kRankPlanWidth))
    print_text("%s\n", line.c_str());
  print_text("\n");
  for (const LayoutEntry& entry : plan.entries)
    print_hanging(train::name_of(entry.layout), train::reason_of(entry, plan.machines));
  print_text("\n");
  print_hanging("fastest", train::name_of(plan.best().layout));
  print_hanging("set", keys_in_words(plan.keys));
}

/// The rate of an option; none if it is not stated.
std::optional<double> stated_rate(const std::string& text, const char* option,
                                  double (*parse)(std::string_view, std::string_view)) {
  if (text.empty()) return std::nullopt;
  return parse(text, std::string("plan ") + option);
}

train::RankPlanOptions rank_options_of(const RankPlanArguments& arguments, std::int64_t ranks,
                                       const std::vector<std::int64_t>& image) {
  if (ranks == 0 || arguments.memory.empty())
    throw usage_error("plan", "--ranks and --memory with options of other machines",
                      ranks == 0 ? "no --ranks" : "no --memory",
                      "accrue plan CONFIG --ranks 8 --memory 24GiB --link 25Gbit/s");
  return {.ranks = ranks,
          .nodes = arguments.nodes == 0 ? std::nullopt : std::optional(arguments.nodes),
          .memory_bytes = parse_bytes(arguments.memory, "plan --memory").count,
          .link = stated_rate(arguments.link, "--link", parse_byte_rate),
          .node_link = stated_rate(arguments.node_link, "--node-link", parse_byte_rate),
          .flops = stated_rate(arguments.flops, "--flops", parse_operation_rate),
          .disk = stated_rate(arguments.disk, "--disk", parse_byte_rate),
          .image = image};
}

}  // namespace

void add_rank_plan_options(CLI::App& verb, RankPlanArguments& arguments) {
  constexpr std::int64_t most_nodes = 1'000'000;
  verb.add_option("--memory", arguments.memory,
                  "With --ranks, of machines that need not exist: the memory of a rank, as 24GiB")
      ->type_name("SIZE");
  verb.add_option("--link", arguments.link, "Their link between nodes, as 25Gbit/s")
      ->type_name("RATE");
  verb.add_option("--nodes", arguments.nodes, "How many nodes have the ranks (default: one each)")
      ->check(integer_in(1, most_nodes))
      ->type_name("N");
  verb.add_option("--node-link", arguments.node_link,
                  "Their link within a node (default: the rate of this machine's memory)")
      ->type_name("RATE");
  verb.add_option("--flops", arguments.flops,
                  "Operations a second of a rank, as 400T (default: this machine's)")
      ->type_name("RATE");
  verb.add_option("--disk", arguments.disk, "A disk of each rank for memory.offload, as 2GB/s")
      ->type_name("RATE");
}

void print_rank_plan(const RankPlanArguments& arguments, std::int64_t ranks,
                     const std::vector<std::int64_t>& image, const train::Config& config,
                     bool json) {
  const RankPlan plan = train::plan_ranks(config, rank_options_of(arguments, ranks, image));
  if (json)
    std::cout << rank_plan_json(plan).dump(2) << std::endl;
  else
    print_as_text(plan);
}

}  // namespace accrue::cli
