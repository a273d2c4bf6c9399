#include "optim/groups.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "accrue/core/error.h"
#include "core/name_pattern.h"

namespace accrue::optim {
namespace {

constexpr const char* kOperation = "group parameters";

void require_setting(double value, const char* name) {
  if (std::isfinite(value) && value >= 0) return;
  throw usage_error(kOperation, std::string("a ") + name + " that is finite and not negative",
                    std::to_string(value), "0 or more");
}

/// The index of each name's parameter among the trained ones; tied names share an index.
class Places {
 public:
  Places(const NamedParameters& parameters, const NamedParameters& trained) {
    std::unordered_map<const at::TensorImpl*, std::size_t> place_of;
    for (std::size_t i = 0; i < trained.size(); ++i)
      place_of[trained[i].tensor.unsafeGetTensorImpl()] = i;
    for (const auto& [name, tensor] : parameters) {
      const auto place = place_of.find(tensor.unsafeGetTensorImpl());
      const auto entry = place == place_of.end() ? std::nullopt : std::optional(place->second);
      if (!places_.emplace(name, entry).second)
        throw usage_error(kOperation, "a name for each parameter", "two of the name " + name,
                          "prefixing names with their module's");
    }
  }

  std::size_t at(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end())
      throw usage_error(kOperation, "names of parameters", name + ", which is none",
                        "the names that the model gives");
    if (!found->second)
      throw usage_error(kOperation, "names of parameters that are trained",
                        name + ", which is frozen", "leaving it out of the groups");
    return *found->second;
  }

 private:
  std::unordered_map<std::string, std::optional<std::size_t>> places_;
};

void require_master(const NamedParameter& parameter) {
  const at::ScalarType dtype = parameter.tensor.scalar_type();
  if (dtype == at::kFloat || dtype == at::kDouble) return;
  throw usage_error("make optimizer", "parameters in fp32 or fp64",
                    parameter.name + " in " + c10::toString(dtype),
                    "fp32 master weights with low-precision copies for the forward pass: "
                    "updates smaller than a low-precision weight's last bit would be lost");
}

}  // namespace

NamedParameters trained_of(const NamedParameters& parameters) {
  NamedParameters trained;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const NamedParameter& parameter : parameters)
    if (parameter.tensor.requires_grad() &&
        seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      trained.push_back(parameter);
  return trained;
}

std::vector<Trained> resolve_groups(const NamedParameters& parameters,
                                    const std::vector<ParameterGroup>& groups) {
  const NamedParameters trained = trained_of(parameters);
  if (trained.empty())
    throw usage_error(kOperation, "a parameter to train",
                      std::to_string(parameters.size()) + " parameters, all frozen",
                      "requires_grad_() on what is to be trained");
  const Places places(parameters, trained);
  std::vector<std::optional<Trained>> resolved(trained.size());
  for (const ParameterGroup& group : groups) {
    require_setting(group.weight_decay, "weight decay");
    require_setting(group.lr_factor, "learning rate factor");
    for (const std::string& name : group.names) {
      const std::size_t place = places.at(name);
      if (resolved[place])
        throw usage_error(kOperation, "each parameter in one group", name + " twice",
                          "leaving it (or the name it is tied to) out of one group");
      resolved[place] = Trained{trained[place], group.weight_decay, group.lr_factor};
    }
  }
  std::vector<Trained> result;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    require_master(trained[i]);
    if (!resolved[i])
      throw usage_error(kOperation, "each trained parameter in a group",
                        trained[i].name + " in none", "adding it to one, or freezing it");
    result.push_back(std::move(*resolved[i]));
  }
  return result;
}

double group_rate(double factor, double lr, const std::optional<RateFall>& fall) {
  // With the schedule's rate there is nothing to round.
  return fall && factor != 1 ? fall->rate(factor) : factor * lr;
}

at::Tensor Trained::stepped() const {
  const at::Tensor& whole = parameter.tensor;
  if (!range) return whole;
  return whole.detach().view({-1}).narrow(0, range->begin, range->elements);
}

std::vector<Trained> slice_of(std::vector<Trained> trained, const RankSlice& slice) {
  if (slice == RankSlice{}) return trained;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const auto& [name, tensor] = trained[i].parameter;
    if (!tensor.is_cpu() || !tensor.is_contiguous())
      throw usage_error("make optimizer", "contiguous parameters on the CPU, to divide them",
                        name + ", which is not", "an optimizer of all");
    trained[i].range = element_range_of(tensor.numel(), i, slice);
  }
  return trained;
}

std::vector<ParameterGroup> default_groups(const NamedParameters& parameters, double weight_decay,
                                           bool decay_all) {
  ParameterGroup decayed{.weight_decay = weight_decay, .name = "decayed"};
  ParameterGroup plain{.name = "undecayed"};
  for (const auto& [name, tensor] : trained_of(parameters))
    (decay_all || tensor.dim() >= 2 ? decayed : plain).names.push_back(name);
  std::vector<ParameterGroup> groups;
  for (ParameterGroup& group : {std::ref(decayed), std::ref(plain)})
    if (!group.names.empty()) groups.push_back(std::move(group));
  return groups;
}

std::vector<ParameterGroup> split_by_rates(const std::vector<ParameterGroup>& groups,
                                           const std::vector<PatternRate>& rates) {
  std::vector<std::string> patterns, names;
  for (const PatternRate& rate : rates) patterns.push_back(rate.match);
  for (const ParameterGroup& group : groups)
    names.insert(names.end(), group.names.begin(), group.names.end());
  check_patterns("optim.rates", patterns, names);
  std::vector<ParameterGroup> parts;
  for (const ParameterGroup& group : groups) {
    std::vector<ParameterGroup> own(rates.size() + 1, group);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].names.clear();
      if (i == rates.size()) continue;
      own[i].lr_factor = rates[i].factor;
      own[i].name += ':' + rates[i].match;
    }
    for (const std::string& name : group.names) {
      const auto first = std::find_if(rates.begin(), rates.end(), [&](const PatternRate& rate) {
        return matches_name(rate.match, name);
      });
      own[static_cast<std::size_t>(first - rates.begin())].names.push_back(name);
    }
    std::rotate(own.begin(), own.end() - 1, own.end());  // the part with the usual rate comes first
    for (ParameterGroup& part : own)
      if (!part.names.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace accrue::optim
