#include "accrue/accum/accumulator_archive.h"

#include <torch/serialize/archive.h>

#include <numeric>

#include "accrue/core/error.h"

namespace accrue {
namespace {

at::Tensor tensor_of(const std::vector<double>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kDouble));
}
at::Tensor tensor_of(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions().dtype(at::kLong));
}

[[noreturn]] void refuse(const std::string& key) {
  throw usage_error("load accumulator state", "an archive that accrue::write made",
                    "one where '" + key + "' is missing or does not fit",
                    "the file that was written with this accumulator's state");
}

c10::IValue read_value(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  if (!archive.try_read(key, value)) refuse(key);
  return value;
}

std::string read_string(torch::serialize::InputArchive& archive, const std::string& key) {
  const c10::IValue value = read_value(archive, key);
  if (!value.isString()) refuse(key);
  return value.toStringRef();
}

at::Tensor read_tensor(torch::serialize::InputArchive& archive, const std::string& key) {
  at::Tensor tensor;
  if (!archive.try_read(key, tensor)) refuse(key);
  return tensor;
}

template <typename Element>
std::vector<Element> read_list(torch::serialize::InputArchive& archive, const std::string& key,
                               std::size_t count) {
  const at::Tensor tensor = read_tensor(archive, key).cpu().contiguous();
  if (tensor.scalar_type() != c10::CppTypeToScalarType<Element>::value ||
      tensor.numel() != static_cast<std::int64_t>(count))
    refuse(key);
  const Element* first = tensor.const_data_ptr<Element>();
  return {first, first + count};
}

struct LedgerColumns {
  std::vector<double> weights, loss_sums;
  std::vector<std::int64_t> indices, statuses, id_counts, ids;
};

LedgerColumns columns_of(const std::vector<LedgerEntry>& entries) {
  LedgerColumns columns;
  for (const LedgerEntry& entry : entries) {
    const std::vector<std::int64_t>& ids = entry.micro.sample_ids;
    columns.weights.push_back(entry.micro.weight);
    columns.loss_sums.push_back(entry.loss_sum);
    columns.indices.push_back(entry.micro.index);
    columns.statuses.push_back(static_cast<std::int64_t>(entry.status));
    columns.id_counts.push_back(static_cast<std::int64_t>(ids.size()));
    columns.ids.insert(columns.ids.end(), ids.begin(), ids.end());
  }
  return columns;
}

void write_ledger(const std::vector<LedgerEntry>& entries,
                  torch::serialize::OutputArchive& archive) {
  const LedgerColumns columns = columns_of(entries);
  archive.write("ledger.weights", tensor_of(columns.weights));
  archive.write("ledger.loss_sums", tensor_of(columns.loss_sums));
  archive.write("ledger.indices", tensor_of(columns.indices));
  archive.write("ledger.statuses", tensor_of(columns.statuses));
  archive.write("ledger.id_counts", tensor_of(columns.id_counts));
  archive.write("ledger.ids", tensor_of(columns.ids));
  for (std::size_t i = 0; i < entries.size(); ++i)
    archive.write("ledger.reason." + std::to_string(i), c10::IValue(entries[i].reason));
}

std::vector<LedgerEntry> read_ledger(torch::serialize::InputArchive& archive, std::size_t count) {
  LedgerColumns columns;
  columns.weights = read_list<double>(archive, "ledger.weights", count);
  columns.loss_sums = read_list<double>(archive, "ledger.loss_sums", count);
  columns.indices = read_list<std::int64_t>(archive, "ledger.indices", count);
  columns.statuses = read_list<std::int64_t>(archive, "ledger.statuses", count);
  columns.id_counts = read_list<std::int64_t>(archive, "ledger.id_counts", count);
  std::size_t ids = 0;
  for (const std::int64_t id_count : columns.id_counts) {
    if (id_count < 0) refuse("ledger.id_counts");
    ids += static_cast<std::size_t>(id_count);
  }
  columns.ids = read_list<std::int64_t>(archive, "ledger.ids", ids);

  std::vector<LedgerEntry> entries(count);
  auto id = columns.ids.begin();
  for (std::size_t i = 0; i < count; ++i) {
    if (columns.statuses[i] < 0 || columns.statuses[i] > 3) refuse("ledger.statuses");
    entries[i].micro = {columns.indices[i], {id, id + columns.id_counts[i]}, columns.weights[i]};
    entries[i].status = static_cast<MicroStatus>(columns.statuses[i]);
    entries[i].loss_sum = columns.loss_sums[i];
    entries[i].reason = read_string(archive, "ledger.reason." + std::to_string(i));
    id += columns.id_counts[i];
  }
  return entries;
}

/// Nothing is written for a window of one loss.
void write_losses(const AccumulatorState& state, torch::serialize::OutputArchive& archive) {
  if (!state.losses) return;
  std::vector<double> weights;
  for (const std::vector<double>& micro : state.loss_weights)
    weights.insert(weights.end(), micro.begin(), micro.end());
  archive.write("losses.totals", tensor_of(state.losses->totals()));
  archive.write("losses.coefficients", tensor_of(state.losses->coefficients()));
  archive.write("losses.weights", tensor_of(weights));
}

void read_losses(torch::serialize::InputArchive& archive, AccumulatorState& state) {
  const std::size_t micros = state.window.entries.size();
  state.loss_weights.resize(micros);
  at::Tensor totals;
  if (!archive.try_read("losses.totals", totals)) return;
  const auto count = static_cast<std::size_t>(totals.numel());
  if (count == 0) refuse("losses.totals");
  state.losses.emplace(read_list<double>(archive, "losses.totals", count),
                       read_list<double>(archive, "losses.coefficients", count));
  const auto weights = read_list<double>(archive, "losses.weights", micros * count);
  for (std::size_t i = 0; i < micros; ++i) {
    const auto first = weights.begin() + static_cast<std::ptrdiff_t>(i * count);
    state.loss_weights[i].assign(first, first + static_cast<std::ptrdiff_t>(count));
  }
}

std::vector<int> read_units(torch::serialize::InputArchive& archive) {
  const std::int64_t count = read_list<std::int64_t>(archive, "unit.count", 1)[0];
  if (count < 0) refuse("unit.count");
  const std::vector<std::int64_t> units =
      read_list<std::int64_t>(archive, "unit.exponents", static_cast<std::size_t>(count));
  return {units.begin(), units.end()};
}

/// Archives of earlier versions have none: nothing was split.
std::vector<std::int64_t> read_first_entries(torch::serialize::InputArchive& archive,
                                             std::size_t entries) {
  at::Tensor there;
  if (archive.try_read("ledger.first_entries", there))
    return read_list<std::int64_t>(archive, "ledger.first_entries", entries);
  std::vector<std::int64_t> own(entries);
  std::iota(own.begin(), own.end(), 0);
  return own;
}

/// Nothing is written if nothing was measured.
void write_noise(const AccumulatorState& state, torch::serialize::OutputArchive& archive) {
  const adapt::NoiseAverage::State& noise = state.noise;
  if (const auto& part = state.noise_part)
    archive.write("noise.part", tensor_of(std::vector<double>{part->part_squared_norm,
                                                              part->part_inverse_weight}));
  if (noise.windows == 0) return;
  archive.write("noise.windows", tensor_of(std::vector<std::int64_t>{noise.windows}));
  archive.write("noise.sums",
                tensor_of(std::vector<double>{
                    noise.decay, noise.weight, noise.squared_weight, noise.variance, noise.gradient,
                    noise.variance_squared, noise.gradient_squared, noise.product}));
}

adapt::NoiseAverage::State read_noise(torch::serialize::InputArchive& archive) {
  at::Tensor there;
  if (!archive.try_read("noise.windows", there)) return {};
  constexpr std::size_t count = 8;
  const auto sums = read_list<double>(archive, "noise.sums", count);
  const adapt::NoiseAverage::State noise{
      .windows = read_list<std::int64_t>(archive, "noise.windows", 1)[0],
      .decay = sums[0],
      .weight = sums[1],
      .squared_weight = sums[2],
      .variance = sums[3],
      .gradient = sums[4],
      .variance_squared = sums[5],
      .gradient_squared = sums[6],
      .product = sums[7]};
  return adapt::NoiseAverage::restored(noise).state();
}

std::optional<adapt::NoiseSample> read_noise_part(torch::serialize::InputArchive& archive) {
  at::Tensor there;
  if (!archive.try_read("noise.part", there)) return std::nullopt;
  const auto figures = read_list<double>(archive, "noise.part", 2);
  return adapt::NoiseSample{.part_squared_norm = figures[0], .part_inverse_weight = figures[1]};
}

}  // namespace

void write(const AccumulatorState& state, torch::serialize::OutputArchive& archive) {
  const accum::WindowState& window = state.window;
  archive.write("counts", tensor_of(std::vector<std::int64_t>{
                              state.steps, state.windows, window.index, window.open, window.lost,
                              static_cast<std::int64_t>(window.entries.size()),
                              static_cast<std::int64_t>(window.sums.size())}));
  archive.write("units", tensor_of(std::vector<double>{state.window_units, state.total_units}));
  write_ledger(window.entries, archive);
  archive.write("ledger.first_entries", tensor_of(state.first_entries));
  write_losses(state, archive);
  write_noise(state, archive);
  archive.write("sum.contributions", tensor_of(window.contributions));
  archive.write(
      "unit.count",
      tensor_of(std::vector<std::int64_t>{static_cast<std::int64_t>(window.units.size())}));
  archive.write("unit.exponents",
                tensor_of(std::vector<std::int64_t>(window.units.begin(), window.units.end())));
  for (std::size_t i = 0; i < window.sums.size(); ++i) {
    archive.write("sum.name." + std::to_string(i), c10::IValue(window.sums[i].name));
    archive.write("sum." + std::to_string(i), window.sums[i].tensor);
  }
}

AccumulatorState read_accumulator_state(torch::serialize::InputArchive& archive) {
  const std::vector<std::int64_t> counts = read_list<std::int64_t>(archive, "counts", 7);
  const std::vector<double> units = read_list<double>(archive, "units", 2);
  if (counts[5] < 0 || counts[6] < 0) refuse("counts");
  AccumulatorState state;
  state.steps = counts[0];
  state.windows = counts[1];
  state.window_units = units[0];
  state.total_units = units[1];
  state.window.index = counts[2];
  state.window.open = counts[3] != 0;
  state.window.lost = counts[4] != 0;
  state.window.entries = read_ledger(archive, static_cast<std::size_t>(counts[5]));
  state.first_entries = read_first_entries(archive, state.window.entries.size());
  read_losses(archive, state);
  state.noise = read_noise(archive);
  state.noise_part = read_noise_part(archive);
  state.window.contributions =
      read_list<std::int64_t>(archive, "sum.contributions", static_cast<std::size_t>(counts[6]));
  state.window.units = read_units(archive);
  for (std::int64_t i = 0; i < counts[6]; ++i)
    state.window.sums.push_back({read_string(archive, "sum.name." + std::to_string(i)),
                                 read_tensor(archive, "sum." + std::to_string(i))});
  return state;
}

}  // namespace accrue
