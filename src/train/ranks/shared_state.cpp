#include "train/ranks/shared_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "models/files/tensors/named_tensors.h"

namespace accrue::train {
namespace {

using nlohmann::json;

constexpr const char* kTheState = "the state of a run";

json shapes_of(const NamedParameters& tensors) {
  json list = json::array();
  for (const auto& [name, tensor] : tensors)
    list.push_back({{"name", name},
                    {"dtype", static_cast<int>(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()}});
  return list;
}

at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

/// The number of windows that each rank has done, plus one; 0 if it has nothing.
std::vector<std::int64_t> ways_of(const Ranks& ranks, const std::optional<TrainState>& mine) {
  return ranks.gather_numbers(mine ? mine->window + 1 : 0);
}

/// The first of the ranks that have done the most, preferably one that has evaluated it.
std::int64_t farthest(const Ranks& ranks, const std::vector<std::int64_t>& ways,
                      const std::optional<TrainState>& mine) {
  const bool has_evaluated = mine && mine->evaluated_step == mine->step;
  const std::vector<std::int64_t> evaluated = ranks.gather_numbers(has_evaluated ? 1 : 0);
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  for (std::size_t rank = 0; rank < ways.size(); ++rank)
    places.emplace_back(ways[rank], evaluated[rank]);
  return std::ranges::max_element(places) - places.begin();
}

Error foreign_state(std::int64_t from, const std::string& expected, const std::string& received) {
  return runtime_error("take the run's state from rank " + std::to_string(from), expected, received,
                       "the same build of accrue and one config on all ranks");
}

/// The most bytes of a state's text.
constexpr std::int64_t kLongestText = std::int64_t{64} << 20;

/// The text of rank `from`, on all ranks.
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

/// The ranks before and after this one in the chain of senders; none at an end.
struct Neighbours {
  std::optional<std::int64_t> before, after;
};

/// The chain begins with the source; the ranks with an older state follow in order.
Neighbours neighbours_of(std::int64_t rank, std::int64_t source,
                         const std::vector<std::int64_t>& ways) {
  std::vector<std::int64_t> chain{source};
  for (std::int64_t other = 0; other < std::ssize(ways); ++other)
    if (ways[static_cast<std::size_t>(other)] < ways[static_cast<std::size_t>(source)])
      chain.push_back(other);
  const auto place = std::ranges::find(chain, rank);
  Neighbours neighbours;
  if (place == chain.end()) return neighbours;
  if (place != chain.begin()) neighbours.before = *(place - 1);
  if (place + 1 != chain.end()) neighbours.after = *(place + 1);
  return neighbours;
}

/// A rank's place in the chain. A piece is sent on while the next one arrives, so many newcomers
/// take hardly longer than one; otherwise the source would have to send the state to each.
class Chain {
 public:
  Chain(const Ranks& ranks, const Neighbours& neighbours)
      : ranks_(ranks), neighbours_(neighbours) {}

  bool begins_here() const { return !neighbours_.before; }

  /// The state received in place of `own`, which was also sent on; empty at the beginning of the
  /// chain, where `own` itself is sent.
  NamedParameters pass(const NamedParameters& own) {
    NamedParameters received;
    for (const auto& [name, tensor] : own) {
      const at::Tensor passed = pass(tensor);
      if (!begins_here()) received.push_back({name, passed});
    }
    return received;
  }

  /// Returns when the last piece was sent.
  void finish() {
    if (sending_) sending_->wait();
    sending_.reset();
  }

 private:
  static constexpr std::int64_t kPieceBytes = std::int64_t{4} << 20;

  at::Tensor pass(const at::Tensor& own) {
    at::Tensor tensor =
        begins_here() ? own.detach().cpu().contiguous() : at::empty(own.sizes(), own.scalar_type());
    if (tensor.numel() == 0) return tensor;
    for (const at::Tensor& piece : bytes_of(tensor).split(kPieceBytes)) {
      if (!begins_here()) ranks_.receive(piece, *neighbours_.before, kTheState);
      if (!neighbours_.after) continue;
      finish();
      sending_ = ranks_.start_send(piece, *neighbours_.after, kTheState);
    }
    return tensor;
  }

  const Ranks& ranks_;
  Neighbours neighbours_;
  std::unique_ptr<distributed::Work> sending_;  ///< of the last piece
};

/// Nothing is changed before the whole state has arrived.
void pass_state_along(const Ranks& ranks, const Neighbours& neighbours, models::Model* model,
                      const NamedParameters& of_model, optim::Optimizer* optimizer,
                      const NamedParameters& of_optimizer) {
  Chain chain(ranks, neighbours);
  const NamedParameters model_tensors = chain.pass(of_model),
                        optimizer_tensors = chain.pass(of_optimizer);
  chain.finish();
  if (chain.begins_here()) return;
  if (model != nullptr)
    model->load_file_tensors(model_tensors, "rank " + std::to_string(*neighbours.before));
  if (optimizer != nullptr) optimizer->load_state(optimizer_tensors);
}

}  // namespace

SharedState share_state(const Ranks& ranks, std::optional<TrainState> mine, models::Model* model,
                        optim::Optimizer* optimizer) {
  const std::vector<std::int64_t> ways = ways_of(ranks, mine);
  const std::int64_t source = farthest(ranks, ways, mine);
  const std::int64_t most = ways[static_cast<std::size_t>(source)];
  if (most == 0)
    throw runtime_error("go on with other ranks", "one that has the run's state", "none",
                        "--resume from the last checkpoint");
  const NamedParameters of_model = model ? model->file_tensors() : NamedParameters(),
                        of_optimizer = optimizer ? optimizer->state() : NamedParameters();
  const json shapes{shapes_of(of_model), shapes_of(of_optimizer)};
  const bool is_source = ranks.rank() == source;
  const std::string text = said_by(
      ranks, source, is_source ? json{{"state", to_json(*mine)}, {"shapes", shapes}}.dump() : "");
  const json said = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("state") || said.value("shapes", json()) != shapes)
    throw foreign_state(source, "the tensors of this rank's run", "others");
  const Neighbours neighbours = neighbours_of(ranks.rank(), source, ways);
  if (neighbours.before || neighbours.after)
    pass_state_along(ranks, neighbours, model, of_model, optimizer, of_optimizer);
  return {is_source ? *std::move(mine) : train_state_from_json(said.at("state"), kTheState),
          std::ranges::min(ways) < most};
}

void share_model(const Ranks& ranks, const StoredTensors& of_first, models::Model& model) {
  for (const NamedParameter& target : model.file_tensors()) {
    const at::Tensor values = at::empty(target.tensor.sizes(), target.tensor.scalar_type());
    if (ranks.is_first()) {
      const auto found = std::ranges::find(of_first, target.name, &StoredTensor::name);
      if (found == of_first.end())
        throw foreign_state(0, "'" + target.name + "' of the model", "no such tensor");
      found->copy_to(values);
    }
    ranks.broadcast(values, 0, kTheState);
    models::copy_by_name({target}, stored(NamedParameters{{target.name, values}}), "rank 0",
                         "tensors of this rank's model");
  }
}

}  // namespace accrue::train
