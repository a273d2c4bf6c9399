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

NamedParameters tensors_like(const json& list) {
  NamedParameters tensors;
  for (const json& each : list)
    tensors.push_back({each.at("name").get<std::string>(),
                       at::empty(each.at("shape").get<std::vector<std::int64_t>>(),
                                 static_cast<at::ScalarType>(each.at("dtype").get<int>()))});
  return tensors;
}

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// How far each rank is: the windows it has done and one, or 0 where it has nothing.
std::vector<std::int64_t> ways_of(const Ranks& ranks, const std::optional<TrainState>& mine) {
  const std::int64_t own = mine ? mine->window + 1 : 0;
  return ranks.each_says(own);
}

void send(const Ranks& ranks, std::int64_t to, const TrainState& state, const Content& content) {
  const std::string text = json{{"state", to_json(state)},
                                {"model", shapes_of(content.model)},
                                {"optimizer", shapes_of(content.optimizer)}}
                               .dump();
  ranks.send(at::tensor({static_cast<std::int64_t>(text.size())}, at::kLong), to, kTheState);
  ranks.send(at::from_blob(const_cast<char*>(text.data()), {static_cast<std::int64_t>(text.size())},
                           at::kByte),
             to, kTheState);
  for (const NamedParameters& tensors : {content.model, content.optimizer})
    for (const auto& [name, tensor] : tensors)
      if (tensor.numel() > 0)
        ranks.send(bytes_of(tensor.detach().cpu().contiguous()), to, kTheState);
}

json receive_header(const Ranks& ranks, std::int64_t from) {
  at::Tensor length = at::zeros({1}, at::kLong);
  ranks.receive(length, from, kTheState);
  std::string text(static_cast<std::size_t>(length.item<std::int64_t>()), ' ');
  ranks.receive(at::from_blob(text.data(), {length.item<std::int64_t>()}, at::kByte), from,
                kTheState);
  return json::parse(text);
}

/// Nothing is taken in before all of it is here.
TrainState receive(const Ranks& ranks, std::int64_t from, models::Model& model,
                   optim::Optimizer& optimizer) {
  const json header = receive_header(ranks, from);
  const Content content{tensors_like(header.at("model")), tensors_like(header.at("optimizer"))};
  for (const NamedParameters& tensors : {content.model, content.optimizer})
    for (const auto& [name, tensor] : tensors)
      if (tensor.numel() > 0) ranks.receive(bytes_of(tensor), from, kTheState);
  TrainState state = train_state_from_json(header.at("state"), kTheState);
  const std::string origin = "rank " + std::to_string(from);
  model.load_file_tensors(content.model, origin);
  optimizer.load_state(content.optimizer);
  return state;
}

}  // namespace

SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model& model,
                        optim::Optimizer& optimizer) {
  const std::vector<std::int64_t> ways = ways_of(ranks, mine);
  const auto farthest = std::ranges::max_element(ways);  // the lowest of several ranks
  if (*farthest == 0)
    throw runtime_error("go on with other ranks", "one that has the run's state", "none",
                        "--resume from the last checkpoint");
  const std::int64_t source = farthest - ways.begin();
  const auto is_behind = [&](std::int64_t rank) {
    return ways[static_cast<std::size_t>(rank)] < *farthest;
  };
  if (is_behind(ranks.rank())) return {receive(ranks, source, model, optimizer), true};
  if (ranks.rank() == source)
    for (std::int64_t rank = 0; rank < ranks.world(); ++rank)
      if (is_behind(rank)) send(ranks, rank, *mine, {model.file_tensors(), optimizer.state()});
  return {*std::move(mine), std::ranges::min(ways) < *farthest};
}

}  // namespace accrue::train
