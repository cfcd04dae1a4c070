// A dashboard as JSON has it, by Grafana's own published types: those, with the names of enums replaced by what stands for them in JSON.
import type { Dashboard } from "@grafana/schema";

type AsJSON<T> = T extends string ? `${T}` | T : T extends (infer U)[] ? AsJSON<U>[] : T extends object ? { [K in keyof T]: AsJSON<T[K]> } : T;

export type DashboardJSON = AsJSON<Dashboard>;
