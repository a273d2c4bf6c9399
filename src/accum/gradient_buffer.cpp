#include "accrue/accum/gradient_buffer.h"

#include <algorithm>
#include <unordered_set>

#include "accrue/accum/sum_shard.h"
#include "accrue/core/error.h"
#include "accrue/core/memory_tag.h"
#include "accrue/memory/offload_passes.h"
#include "accum/folded_gradient.h"
#include "accum/staged_sum.h"

namespace accrue::accum {
namespace {

constexpr std::int64_t kAlignmentBytes = 64;

void check_parameter(const NamedParameter& parameter) {
  const auto refuse = [&](const char* received, const char* suggestion) {
    throw usage_error("gradient buffer", "floating-point leaf tensors as parameters",
                      "'" + parameter.name + "', which " + received, suggestion);
  };
  if (!parameter.tensor.defined()) refuse("is undefined", "leaving it out");
  if (!parameter.tensor.is_leaf())
    refuse("is the result of an operation", "the tensor it was computed from, or detach() of it");
  if (!parameter.tensor.requires_grad()) return;
  if (!at::isFloatingType(parameter.tensor.scalar_type()))
    refuse("is not floating point", "real parameters (torch::view_as_real of a complex one)");
  if (parameter.tensor.layout() != at::kStrided)
    refuse("is not a dense strided tensor", "to_dense() of it");
}

void check_names(const NamedParameters& parameters) {
  std::unordered_set<std::string> names;
  for (const NamedParameter& parameter : parameters)
    if (!names.insert(parameter.name).second)
      throw usage_error("gradient buffer", "a name of its own for each parameter",
                        "'" + parameter.name + "' twice", "numbering them, or registering once");
}

std::vector<GradientBuffer::Entry> trained_entries(const NamedParameters& parameters) {
  std::vector<GradientBuffer::Entry> entries;
  std::unordered_set<const c10::TensorImpl*> seen;
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.requires_grad() &&
        seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      entries.push_back({parameter.name, parameter.tensor, nullptr});
  return entries;
}

/// The slots that share one allocation.
struct Group {
  at::TensorOptions options;
  std::int64_t elements = 0;
  std::vector<std::pair<GradientBuffer::Entry*, std::int64_t>> offsets;
};

bool needs_staging(const at::Tensor& parameter, Accumulation accumulation) {
  if (accumulation == Accumulation::fp64) return parameter.scalar_type() != at::kDouble;
  return accumulation != Accumulation::fp32;
}

at::ScalarType slot_dtype(const at::Tensor& parameter, Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::fp32:
      return parameter.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    case Accumulation::fp64:
      return at::kDouble;
    case Accumulation::fixed:
      return at::kLong;
    default:
      return at::kBFloat16;
  }
}

Group& group_of(std::vector<Group>& groups, const at::TensorOptions& options) {
  for (Group& group : groups)
    if (group.options.device() == options.device() && group.options.dtype() == options.dtype())
      return group;
  return groups.emplace_back(Group{options, 0, {}});
}

std::vector<Group> lay_out(std::vector<GradientBuffer::Entry>& entries, Accumulation accumulation) {
  std::vector<Group> groups;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const at::TensorOptions options = at::TensorOptions()
                                          .device(entry->parameter.device())
                                          .dtype(slot_dtype(entry->parameter, accumulation));
    Group& group = group_of(groups, options);
    group.offsets.emplace_back(&*entry, group.elements);
    const std::int64_t unit =
        kAlignmentBytes / static_cast<std::int64_t>(options.dtype().itemsize());
    group.elements += (entry->parameter.numel() + unit - 1) / unit * unit;
  }
  return groups;
}

at::Tensor allocate(const Group& group) {
  at::Tensor flat = memory::zeros({group.elements}, group.options);
  for (const auto& [entry, offset] : group.offsets)
    entry->slot = std::make_shared<kernels::GradSlot>(
        flat.narrow(0, offset, entry->parameter.numel()).view(entry->parameter.sizes()));
  return flat;
}

std::string in_words(at::ScalarType dtype, at::IntArrayRef sizes, const at::Device& device) {
  return c10::str(c10::toString(dtype), sizes, " on ", device.str());
}

/// The sums of one window must be on one device, where their norm is computed.
void check_one_device(const std::vector<GradientBuffer::Entry>& entries) {
  for (const GradientBuffer::Entry& entry : entries) {
    const GradientBuffer::Entry& first = entries.front();
    if (entry.parameter.device() == first.parameter.device()) continue;
    throw usage_error("accumulate gradients", "parameters on one device",
                      "'" + first.name + "' on " + first.parameter.device().str() + " and '" +
                          entry.name + "' on " + entry.parameter.device().str(),
                      "model->to(device) before the optimizer is made");
  }
}

void check_folding(const std::vector<GradientBuffer::Entry>& entries, const FoldInto& into) {
  const auto refuse = [](const std::string& expected, const std::string& received,
                         const char* suggestion) {
    throw usage_error("fold gradients into the optimizer", expected, received, suggestion);
  };
  for (const GradientBuffer::Entry& entry : entries) {
    if (into.target && !into.target->takes(entry.parameter))
      refuse("an optimizer of all these parameters", "one without '" + entry.name + "'",
             "one list of parameters for both");
  }
  for (const std::string& name : into.shared)
    if (std::ranges::find(entries, name, &GradientBuffer::Entry::name) == entries.end())
      refuse("names of trained parameters", "'" + name + "', which is none",
             "the names that the model gives");
}

}  // namespace

GradientBuffer::GradientBuffer(const NamedParameters& parameters, Accumulation accumulation,
                               std::uint64_t rounding_seed)
    : accumulation_(accumulation), rounding_seed_(rounding_seed) {
  for (const NamedParameter& parameter : parameters) check_parameter(parameter);
  check_names(parameters);
  entries_ = trained_entries(parameters);
  check_one_device(entries_);
  make_slots();
  attach_all();
}

GradientBuffer::GradientBuffer(const NamedParameters& parameters, FoldInto into) {
  for (const NamedParameter& parameter : parameters) check_parameter(parameter);
  check_names(parameters);
  entries_ = trained_entries(parameters);
  check_one_device(entries_);
  check_folding(entries_, into);
  make_folding_slots(into);
  attach_all();
}

void GradientBuffer::attach_all() {
  for (const Entry& entry : entries_)
    kinds_.push_back(
        {entry.parameter.scalar_type(), entry.parameter.device(), entry.parameter.sizes().vec()});
  try {
    claim();
  } catch (...) {
    release();
    throw;
  }
}

void GradientBuffer::make_folding_slots(const FoldInto& into) {
  const at::NoGradGuard no_grad;
  const MemoryTagScope tag(MemoryTag::gradients);
  folding_ = std::make_shared<Folding>();
  folding_->target = into.target;
  const bool takes_parts = into.target && into.target->takes_parts();
  for (Entry& entry : entries_) {
    const bool is_shared = std::ranges::find(into.shared, entry.name) != into.shared.end();
    const auto make = is_shared && !takes_parts ? make_folded_at_commit : make_folded_at_once;
    entry.folded = make(folding_, entry.name, entry.parameter);
    const at::Tensor nothing = at::zeros(
        {}, entry.parameter.options().dtype(slot_dtype(entry.parameter, Accumulation::fp32)));
    entry.slot = std::make_shared<kernels::GradSlot>(nothing.expand(entry.parameter.sizes()));
    entry.slot->fold = entry.folded;
  }
}

void GradientBuffer::make_slots() {
  const at::NoGradGuard no_grad;
  const MemoryTagScope tag(MemoryTag::gradients);
  for (const Group& group : lay_out(entries_, accumulation_)) flat_.push_back(allocate(group));
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (needs_staging(entries_[i].parameter, accumulation_)) stage(entries_[i], i);
}

void GradientBuffer::stage(Entry& entry, std::size_t index) {
  if (!staging_) staging_ = std::make_shared<Staging>(rounding_seed_);
  staging_->reserve(entry.parameter);
  entry.staged = make_staged_sum(accumulation_, staging_, entry.slot->main, entry.parameter, index);
  entry.slot->fold = entry.staged;
  if (auto* fixed = dynamic_cast<FixedSum*>(entry.staged.get())) fixed_.push_back(fixed);
}

GradientBuffer::~GradientBuffer() { release(); }

void GradientBuffer::release() {
  for (const Entry& entry : entries_)
    if (kernels::slot_of(entry.parameter) == entry.slot.get()) kernels::detach(entry.parameter);
}

std::int64_t GradientBuffer::bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& flat : flat_) bytes += static_cast<std::int64_t>(flat.nbytes());
  for (const Entry& entry : entries_)
    if (entry.staged) bytes += entry.staged->extra_bytes();
  if (folding_) bytes += folding_->staging.bytes();
  for (const Entry& entry : entries_)
    if (entry.folded) bytes += entry.folded->kept_bytes();
  return staging_ ? bytes + staging_->bytes() : bytes;
}

std::string GradientBuffer::conversion(std::size_t index) const {
  const Kind& made = kinds_[index];
  const at::Tensor& now = entries_[index].parameter;
  if (now.scalar_type() == made.dtype && now.device() == made.device && now.sizes() == made.sizes)
    return {};
  return "'" + entries_[index].name + "', which was " +
         in_words(made.dtype, made.sizes, made.device) + " and is " +
         in_words(now.scalar_type(), now.sizes(), now.device()) + " now";
}

void GradientBuffer::claim() {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (const std::string converted = conversion(i); !converted.empty())
      throw usage_error("gradient buffer", "parameters as they were when it was made", converted,
                        "model->to(...) first, and the Accumulator, Stepper or optimizer after it");
  for (const Entry& entry : entries_)
    if (const kernels::GradSlot* owner = kernels::slot_of(entry.parameter);
        owner != nullptr && owner->in_window)
      throw usage_error("gradient buffer", "parameters that no open window is accumulating",
                        "'" + entry.name + "', which belongs to one",
                        "stepping or discarding that window first, or one accumulator for both");
  for (const Entry& entry : entries_)
    if (kernels::slot_of(entry.parameter) != entry.slot.get())
      kernels::attach(entry.parameter, entry.slot);
}

void GradientBuffer::begin_window(std::int64_t index) {
  if (staging_) staging_->window = index;
  for (FixedSum* sum : fixed_) sum->begin_window();
  discard_sums();
}

/// All slots are fresh: nothing of the last window's sums is read again, so that offloaded ones
/// need not be written to the disk and read back.
void GradientBuffer::discard_sums() const {
  if (std::ranges::none_of(flat_, memory::is_offloaded)) return;
  for (const at::Tensor& flat : flat_) memory::discard(flat);
  for (const Entry& entry : entries_) {
    if (!entry.staged) continue;
    if (const at::Tensor extra = entry.staged->compensation(); extra.defined())
      memory::discard(extra);
  }
}

bool GradientBuffer::folds_into(const FoldTarget& target) const {
  return folding_ && folding_->target.get() == &target;
}

bool GradientBuffer::needs_total_weight() const { return folding_ && folding_->target; }

bool GradientBuffer::is_between_steps() const {
  return needs_total_weight() && folding_->target->is_between_steps();
}

void GradientBuffer::begin_folding(double total_weight) {
  folding_->scale = total_weight > 0 ? 1 / total_weight : 0;
}

void GradientBuffer::begin_micro_batch() {
  if (!folding_) return;
  folding_->folded = 0;
  folding_->found_non_finite = false;
  for (const Entry& entry : entries_) entry.folded->begin_micro_batch();
}

/// Checks what was folded on a device by values that the device computed, once for all slots.
void GradientBuffer::judge_staged() {
  std::vector<at::Tensor> largest;
  std::vector<const Entry*> judged;
  for (const Entry& entry : entries_)
    if (at::Tensor unjudged = entry.staged->take_unjudged(); unjudged.defined()) {
      largest.push_back(std::move(unjudged));
      judged.push_back(&entry);
    }
  if (largest.empty()) return;
  const at::Tensor on_host = at::stack(largest).cpu();
  for (std::size_t i = 0; i < judged.size(); ++i)
    judged[i]->staged->judge(*judged[i]->slot, on_host.const_data_ptr<double>()[i]);
}

void GradientBuffer::end_micro_batch() {
  if (is_staged()) judge_staged();
  if (!folding_) return;
  const at::NoGradGuard no_grad;
  for (const Entry& entry : entries_) entry.folded->check(*entry.slot);
  for (const Entry& entry : entries_) entry.folded->end_micro_batch();
}

bool GradientBuffer::drop_micro_batch() {
  for (const Entry& entry : entries_) entry.slot->found_non_finite = false;
  return folding_->folded == 0;
}

void GradientBuffer::end_window(const SumShard* shard) {
  if (folds()) return;
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (!entry.slot->fresh) continue;
    if (shard != nullptr) {
      const ElementRange own = element_range_of(entry.slot->main.numel(), i, shard->slice());
      entry.slot->main.view({-1}).narrow(0, own.begin, own.elements).zero_();
    } else if (entry.staged) {
      entry.staged->clear();
    } else {
      entry.slot->main.zero_();
    }
  }
  if (!fixed_.empty()) plan_units(shard);
}

/// Selects the next units from the number of bits of each slot's largest sum.
void GradientBuffer::plan_units(const SumShard* shard) {
  const RankSlice slice = shard != nullptr ? shard->slice() : RankSlice{};
  std::vector<std::int64_t> bits;
  for (std::size_t i = 0; i < fixed_.size(); ++i) {
    const at::Tensor& sum = entries_[i].slot->main;
    memory::keep_only(sum);
    bits.push_back(fixed_[i]->largest_bits(element_range_of(sum.numel(), i, slice)));
  }
  if (shard != nullptr) shard->take_largest(bits);
  for (std::size_t i = 0; i < fixed_.size(); ++i) fixed_[i]->plan(static_cast<int>(bits[i]));
}

std::vector<int> GradientBuffer::units() const {
  std::vector<int> units;
  for (const FixedSum* sum : fixed_) units.push_back(sum->next_unit());
  return units;
}

void GradientBuffer::set_units(const std::vector<int>& units) {
  if (units.size() != fixed_.size())
    throw usage_error("set fixed-point units", std::to_string(fixed_.size()) + " exponents",
                      std::to_string(units.size()),
                      "the units() of a buffer of the same parameters and accumulation");
  if (std::ranges::any_of(entries_, [](const Entry& entry) { return entry.slot->in_window; }))
    throw usage_error("set fixed-point units", "no open window", "one",
                      "doing so before open() or after close()");
  for (std::size_t i = 0; i < units.size(); ++i) fixed_[i]->set_next_unit(units[i]);
}

void GradientBuffer::enlarge_units() {
  for (std::size_t i = 0; i < fixed_.size(); ++i)
    if (std::exchange(entries_[i].slot->found_too_large, false)) fixed_[i]->enlarge();
}

void GradientBuffer::raise_units(const std::vector<int>& units) {
  for (std::size_t i = 0; i < fixed_.size(); ++i) fixed_[i]->raise(units.at(i));
}

at::Tensor GradientBuffer::saved_sum(const Entry& entry) {
  return entry.staged ? entry.staged->saved() : entry.slot->main.clone();
}

bool GradientBuffer::fits(const Entry& entry, const at::Tensor& saved) {
  if (!saved.defined()) return false;
  if (entry.staged) return entry.staged->fits(saved);
  return entry.slot->main.sizes() == saved.sizes() &&
         entry.slot->main.scalar_type() == saved.scalar_type();
}

void GradientBuffer::restore_sum(const Entry& entry, const at::Tensor& saved,
                                 std::int64_t contributions) {
  const at::NoGradGuard no_grad;
  if (entry.staged)
    entry.staged->restore(saved);
  else
    entry.slot->main.copy_(saved);
  entry.slot->fresh = false;
  entry.slot->contributions = contributions;
}

bool grad_can_view_slot(const GradientBuffer::Entry& entry) {
  return !entry.staged && !entry.folded &&
         entry.slot->main.scalar_type() == entry.parameter.scalar_type();
}

}  // namespace accrue::accum
