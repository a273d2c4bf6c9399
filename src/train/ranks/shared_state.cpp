#include "train/ranks/shared_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

using nlohmann::json;

constexpr const char* kTheState = "the state of a run";

/// A rank's tensors, as they are sent.
struct Content {
  NamedParameters model, optimizer;
};

json shapes_of(const NamedParameters& tensors) {
  json list = json::array();
  for (const auto& [name, tensor] : tensors)
    list.push_back({{"name", name},
                    {"dtype", static_cast<int>(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()}});
  return list;
}

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// The windows that each rank has done, and one; 0 where it has nothing.
std::vector<std::int64_t> ways_of(const Ranks& ranks, const std::optional<TrainState>& mine) {
  return ranks.each_says(mine ? mine->window + 1 : 0);
}

/// The first of the ranks that have done the most, and of these of one that has evaluated it.
std::int64_t farthest(const Ranks& ranks, const std::vector<std::int64_t>& ways,
                      const std::optional<TrainState>& mine) {
  const bool has_evaluated = mine && mine->evaluated_step == mine->step;
  const std::vector<std::int64_t> evaluated = ranks.each_says(has_evaluated ? 1 : 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (std::size_t rank = 0; rank < ways.size(); ++rank)
    places.emplace_back(ways[rank], evaluated[rank]);
  return std::ranges::max_element(places) - places.begin();
}

Error foreign_state(std::int64_t from, const std::string& expected, const std::string& received) {
  return runtime_error("take the run's state from rank " + std::to_string(from), expected, received,
                       "the same build of accrue and one config on all ranks");
}

/// The most that a state's text takes.
constexpr std::int64_t kLongestText = std::int64_t{64} << 20;

/// What rank `from` says, on all ranks.
std::string said_by(const Ranks& ranks, std::int64_t from, std::string text) {
  const at::Tensor length = at::tensor({static_cast<std::int64_t>(text.size())}, at::kLong);
  ranks.broadcast(length, from, kTheState);
  const auto bytes = length.item<std::int64_t>();
  if (bytes < 1 || bytes > kLongestText)
    throw foreign_state(from, "a state", std::to_string(bytes) + " bytes");
  text.resize(static_cast<std::size_t>(bytes));
  ranks.broadcast(at::from_blob(text.data(), {bytes}, at::kByte), from, kTheState);
  return text;
}

void send(const Ranks& ranks, std::int64_t to, const Content& content) {
  for (const NamedParameters& tensors : {content.model, content.optimizer})
    for (const auto& [name, tensor] : tensors)
      if (tensor.numel() > 0)
        ranks.send(bytes_of(tensor.detach().cpu().contiguous()), to, kTheState);
}

NamedParameters receive_tensors(const Ranks& ranks, std::int64_t from, const NamedParameters& own) {
  NamedParameters received;
  for (const auto& [name, tensor] : own) {
    received.push_back({name, at::empty(tensor.sizes(), tensor.scalar_type())});
    if (tensor.numel() > 0) ranks.receive(bytes_of(received.back().tensor), from, kTheState);
  }
  return received;
}

/// Nothing is taken in before all of it is here.
void receive(const Ranks& ranks, std::int64_t from, const Content& own, models::Model& model,
             optim::Optimizer* optimizer) {
  const NamedParameters of_model = receive_tensors(ranks, from, own.model),
                        of_optimizer = receive_tensors(ranks, from, own.optimizer);
  model.load_file_tensors(of_model, "rank " + std::to_string(from));
  if (optimizer != nullptr) optimizer->load_state(of_optimizer);
}

}  // namespace

SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model& model,
                        optim::Optimizer* optimizer) {
  const std::vector<std::int64_t> ways = ways_of(ranks, mine);
  const std::int64_t source = farthest(ranks, ways, mine);
  const std::int64_t most = ways[static_cast<std::size_t>(source)];
  if (most == 0)
    throw runtime_error("go on with other ranks", "one that has the run's state", "none",
                        "--resume from the last checkpoint");
  const Content own{model.file_tensors(),
                    optimizer == nullptr ? NamedParameters() : optimizer->state()};
  const json shapes{shapes_of(own.model), shapes_of(own.optimizer)};
  const bool is_source = ranks.rank() == source;
  const std::string text = said_by(
      ranks, source, is_source ? json{{"state", to_json(*mine)}, {"shapes", shapes}}.dump() : "");
  const json said = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("state") || said.value("shapes", json()) != shapes)
    throw foreign_state(source, "the tensors of this rank's run", "others");
  const auto is_behind = [&](std::int64_t rank) {
    return ways[static_cast<std::size_t>(rank)] < most;
  };
  if (is_behind(ranks.rank())) receive(ranks, source, own, model, optimizer);
  for (std::int64_t rank = 0; is_source && rank < ranks.world(); ++rank)
    if (is_behind(rank)) send(ranks, rank, own);
  return {is_source ? *std::move(mine) : train_state_from_json(said.at("state"), kTheState),
          std::ranges::min(ways) < most};
}

}  // namespace accrue::train
