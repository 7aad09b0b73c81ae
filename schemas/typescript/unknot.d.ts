// The wire of unknot, version 1. Written by `make schemas` from unknot_schemas: do not edit.
//
// Unknown fields are ignored. A field with `?` may be left out; its default is said where it is not null.

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What made a wait's need come true. *true*: conditions by index, *need* of them. */
export interface Fulfilled {
  true: number[];
  fencing_token?: number | null;
  lease_s?: number | null;
  /** Default: {}. */
  artifacts?: { [key: string]: Json };
  decision?: "approved" | "denied" | null;
}

/** What a session holds: *id* of the wait by which it was granted, and its fencing token. */
export interface Hold {
  id: string;
  token: number;
  resources: ResourceUnits[];
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  lease_s?: number | null;
}

/** What happened, to whom, and what to do now. */
export interface Error {
  code: string;
  message: string;
  detail?: { [key: string]: Json } | null;
}

/** Requests with the same group are one wait: *need* of *n* answers. */
export interface Group {
  id: string;
  n: number;
  need: number;
}

/**
 * What an agent sends: an event, a request or an answer. Without ``unknot`` the whole body is bare
 * data.
 */
export interface Envelope {
  /** Default: 0. */
  unknot?: number;
  id?: string | null;
  session?: string | null;
  data?: Json;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  group?: Group | null;
  run?: string | null;
  timeout_s?: number | null;
  wait_for_target_s?: number | null;
  metadata?: Json;
  error?: Error | null;
  /** Default: true. */
  done?: boolean;
  traceparent?: string | null;
  tracestate?: string | null;
  response_to?: string | null;
  accept_uncorrelated?: string | null;
}

/** What the gateway hands to an agent; in an Outcome: the answer. ``time`` is for people only. */
export interface Delivered {
  id: string;
  type: string;
  source: string;
  target: string;
  data: Json;
  requires_response: boolean;
  epoch: number;
  unknot: number;
  response_to?: string | null;
  run?: string | null;
  metadata?: Json;
  time?: string | null;
  deadline_in_s?: number | null;
  seq?: number | null;
  for?: string | null;
  /** Default: false. */
  redelivered?: boolean;
  traceparent?: string | null;
  tracestate?: string | null;
}

/** Answer to everything that is not a blocking request. */
export interface Receipt {
  ok: boolean;
  id?: string | null;
  timeout_s?: number | null;
  /** Default: false. */
  duplicate?: boolean;
  error?: Error | null;
  lease_s?: number | null;
}

/** How a request or a wait ended; exactly one for each id. */
export interface Outcome {
  request_id: string;
  outcome: "approved" | "cancelled" | "deadlock" | "denied" | "expired" | "failed" | "granted" | "over_limit" | "produced" | "refused" | "reply" | "responder_lost" | "unreachable";
  handled: "maybe" | "no" | "yes";
  epoch: number;
  event?: Delivered | null;
  error?: Error | null;
  fulfilled?: Fulfilled | null;
}

/**
 * Slots that serve event types; types None: what no other pool of the session names; slots None: no
 * limit.
 */
export interface Pool {
  slots: number | null;
  types?: string[] | null;
  /** Default: false. */
  main?: boolean;
}

/** A session begins, or goes on after an epoch change (resume). */
export interface Hello {
  session: string;
  /** Default: 1. */
  protocol?: number;
  instance?: string | null;
  pools?: Pool[] | null;
  concurrency?: number | null;
  /** Default: true. */
  main_runs?: boolean;
  channels?: string[] | null;
  /** Default: false. */
  reentrant?: boolean;
  /** Default: false. */
  exclusive?: boolean;
  heartbeat_s?: number | null;
  sdk?: string | null;
  /** Default: false. */
  resume?: boolean;
  open?: string[] | null;
  held?: Held[] | null;
  answered?: string[] | null;
  /** Default: 0. */
  seen?: number;
  connection?: string | null;
  holds?: Hold[] | null;
}

/** An event in the hands of a session: its handler runs, or it has been deferred. */
export interface Held {
  id: string;
  /** Default: "running". */
  state?: "deferred" | "running";
  type?: string | null;
}

/** Answer to hello and heartbeat's ground: what holds for this session. */
export interface Welcome {
  ok: boolean;
  session: string;
  epoch: number;
  protocol: number;
  heartbeat_s: number;
  session_loss_s: number;
  limits: { [key: string]: number };
}

/**
 * What is open and held and older than one interval; ``seen``: number of the last delivery that
 * arrived.
 */
export interface Heartbeat {
  session: string;
  /** Default: []. */
  open?: string[];
  /** Default: []. */
  held?: Held[];
  /** Default: 0. */
  seen?: number;
  connection?: string | null;
  holds?: Hold[] | null;
}

/**
 * Answer to a heartbeat. *unknown*: open ids to be sent again; *not_held*: held ids the gateway does
 * not know. *unknown_holds*: ids of holds that are none (any more).
 */
export interface Pulse {
  ok: boolean;
  epoch: number;
  /** Default: []. */
  unknown?: string[];
  /** Default: []. */
  not_held?: string[];
  /** Default: []. */
  unknown_holds?: string[];
}

/** No new work for this session; it ends when what it holds has ended, or after drain_s (0: now). */
export interface Bye {
  session: string;
  /** Default: 0.0. */
  drain_s?: number;
}

/** The handlers of these events have returned; a main loop has read on. */
export interface Done {
  session: string;
  ids: string[];
}

/** The answers come later from elsewhere; *by*: the execution of this session that will give them. */
export interface Defer {
  session: string;
  ids: string[];
  by?: string | null;
}

/**
 * Of one execution. *alive*: own task ("") and joined strands without an open wait; *awaited*: child
 * tasks that the own task stands waiting for.
 */
export interface Strands {
  /** Default: []. */
  alive?: string[];
  /** Default: []. */
  awaited?: string[];
}

/** Answer to ``confirm``, from the receive loop, at once. Keys of *strands* are execution ids. */
export interface Facts {
  session: string;
  incident: string;
  /** Default: []. */
  open?: string[];
  /** Default: {}. */
  requests?: { [key: string]: "deferred" | "done" | "running" };
  /** Default: {}. */
  strands?: { [key: string]: Strands };
  holds?: string[] | null;
}

/**
 * What is waited for: kind reply (id: a request), event (id: a type pattern), agent, human, tool,
 * artifact, …
 */
export interface WaitCondition {
  kind: string;
  /** Default: "". */
  id?: string;
  /** Default: 1. */
  units?: number;
  generation?: number | null;
  source?: string | null;
  lease_s?: number | null;
}

/** An execution cannot go on until *need* of *on* are true. */
export interface WaitOpen {
  id: string;
  session: string;
  on: WaitCondition[];
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  /** Default: 0. */
  generation?: number;
  group?: string | null;
  run?: string | null;
  /** Default: "all". */
  need?: "all" | "any" | number;
  timeout_s?: number | null;
  /** Default: "interruptible". */
  cancel_mode?: "at_checkpoint" | "interruptible" | "never";
  reason?: string | null;
  data?: Json;
  /** Default: 0.0. */
  since_s?: number;
}

/** The wait ended on the agent's side; an older generation changes nothing. */
export interface WaitClose {
  id: string;
  session?: string | null;
  generation?: number | null;
}

/** The sender does not want the answer any more. */
export interface RequestCancel {
  id: string;
  session?: string | null;
}

/** One wait that a member is asked about. */
export interface ConfirmWait {
  id: string;
  /** Default: 0. */
  generation?: number;
}

/** Control ``confirm``: are these waits open, and where do these requests stand? */
export interface Confirm {
  incident: string;
  waits: ConfirmWait[];
  requests: string[];
  /** Default: []. */
  executions?: string[];
}

/** Control ``request.abandoned``: nobody waits for this answer any more. */
export interface Abandoned {
  request_id: string;
  reason: string;
}

/** Control ``session.replaced``: another session has taken this one's place. */
export interface Replaced {
  session: string;
  by: string;
}

/** One wait of a deadlock's member. */
export interface MemberWait {
  id: string;
  waiter: string;
  session: string;
  execution: string;
  generation: number;
  kind: string;
  target: string;
  since_s: number;
  strand?: string | null;
  type?: string | null;
  deadline_in_s?: number | null;
  run?: string | null;
}

/** Control and notice ``agent.wait.deadlock_detected``: these waits can never end. */
export interface DeadlockDetected {
  incident: string;
  digest: string;
  network: string;
  cycle: string[];
  waits: MemberWait[];
  request_ids: string[];
  blocked_behind: string[];
  policy: string;
  evidence: "assumed" | "observed" | "reported";
  remedy: string;
  message: string;
  members_total: number;
  waits_total: number;
  blocked_behind_total: number;
  retry_after_s: number;
  victim?: string | null;
}

/** Notice ``agent.pools_differ``: *session* serves *more* types than *other*, or not those of *less*. */
export interface PoolsDiffer {
  network: string;
  agent: string;
  session: string;
  other: string;
  more: string[];
  less: string[];
  message: string;
}

/**
 * Notice ``agent.over_limit``: *shed* messages of *agent* went unread since the last one, *shed_total*
 * in all.
 */
export interface OverLimit {
  network: string;
  agent: string;
  shed: number;
  shed_total: number;
  message: string;
}

/** Control ``agent.wait.blocked_behind``: what these waits hang on is deadlocked; they go on. */
export interface BlockedBehind {
  incident: string;
  cycle: string[];
  waits: string[];
}

/** So many units of a lock (it has one) or of a pool of permits. */
export interface ResourceUnits {
  id: string;
  /** Default: "lock". */
  kind?: "lock" | "permits";
  /** Default: 1. */
  units?: number;
}

/** Grant all of *resources* or none: a wait with need all. Outcome ``granted``. */
export interface LockAcquire {
  id: string;
  session: string;
  resources: ResourceUnits[];
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  run?: string | null;
  lease_s?: number | null;
  timeout_s?: number | null;
  /** Default: "interruptible". */
  cancel_mode?: "at_checkpoint" | "interruptible" | "never";
  reason?: string | null;
}

/** The lease of the hold *id* begins anew. */
export interface LockRenew {
  id: string;
  token: number;
  lease_s?: number | null;
  session?: string | null;
}

/** What *id* holds is given back. */
export interface LockRelease {
  id: string;
  token?: number | null;
  session?: string | null;
}

/** Is *token* still the one of a live hold of *resource*? Asked by whoever writes under a lock. */
export interface LockCheck {
  resource: string;
  token: number;
  session?: string | null;
}

/** There are *capacity* permits in the pool *id*; said again: so many from now on. */
export interface PoolDeclare {
  id: string;
  capacity: number;
  session?: string | null;
}

/** This execution may produce the artifact *id*. */
export interface ArtifactDeclare {
  id: string;
  session: string;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
}

/** This execution will not produce it. */
export interface ArtifactWithdraw {
  id: string;
  session: string;
  execution?: string | null;
  strand?: string | null;
}

/** The token of a hold of *resource*. */
export interface FencingToken {
  resource: string;
  token: number;
}

/** The artifact *id* is there, for ever; with *token* only while that hold is live. */
export interface ArtifactPublish {
  id: string;
  session: string;
  data?: Json;
  token?: FencingToken | null;
}

/** The artifact *id* may be produced anew. */
export interface ArtifactForget {
  id: string;
  session?: string | null;
}

/** Wait for one artifact: a wait with one condition. Outcome ``produced``. */
export interface ArtifactWait {
  id: string;
  session: string;
  artifact: string;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  run?: string | null;
  timeout_s?: number | null;
  /** Default: "interruptible". */
  cancel_mode?: "at_checkpoint" | "interruptible" | "never";
  reason?: string | null;
}

/** Wait until *from* (``human:<name>`` or an agent) has decided. Outcome ``approved`` or ``denied``. */
export interface ApprovalRequest {
  id: string;
  session: string;
  from: string;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  run?: string | null;
  timeout_s?: number | null;
  data?: Json;
  reason?: string | null;
}

/** The decision on the approval *id*, by the agent that was asked. */
export interface ApprovalResolve {
  id: string;
  decision: "approved" | "denied";
  reason?: string | null;
  session?: string | null;
}

/** An execution of an agent; None: its main. */
export interface Holder {
  agent: string;
  execution?: string | null;
}

/**
 * Who holds, or can produce or do, something outside: a report that waits without a lease rest on.
 * *holder*: None: the sender's own *execution*. *until_s*: then it is forgotten.
 */
export interface HolderSet {
  session: string;
  kind: "artifact" | "lock" | "permits" | "task";
  id: string;
  holder?: Holder | null;
  /** Default: 1. */
  units?: number;
  capacity?: number | null;
  until_s?: number | null;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
}

/** It does not any more. */
export interface HolderClear {
  session: string;
  kind: "artifact" | "lock" | "permits" | "task";
  id: string;
  holder?: Holder | null;
  execution?: string | null;
  strand?: string | null;
}

/** Control ``lock.lapsed``: this is held no more; another may have it, with a higher token. */
export interface Lapsed {
  id: string;
  resources: ResourceUnits[];
  token: number;
}

/** Control and notice ``approval.requested``: *by* waits for the decision of *from*. */
export interface ApprovalRequested {
  id: string;
  by: string;
  from: string;
  deadline_in_s: number;
  data?: Json;
  reason?: string | null;
  run?: string | null;
}

/** Codes of errors so far; more may come. */
export type ErrorCode =
  | "bad_request"
  | "bad_id"
  | "too_large"
  | "unknown_verb"
  | "not_permitted"
  | "protocol_unknown"
  | "session_required"
  | "stale_session"
  | "unknown_session"
  | "session_used"
  | "id_conflict"
  | "not_subscribed"
  | "depth_limit"
  | "over_limit"
  | "unreachable"
  | "no_answer"
  | "no_reader"
  | "handler_failed"
  | "responder_lost"
  | "deadlock"
  | "expired"
  | "cancelled"
  | "outcome_forgotten"
  | "gateway_stopped"
  | "group_conflict"
  | "late_reply"
  | "foreign_reply"
  | "unknown_reply"
  | "duplicate_reply"
  | "stale_reply"
  | "pub_ack"
  | "unknown_wait"
  | "stale_generation"
  | "unknown_pool"
  | "over_capacity"
  | "bad_units"
  | "not_held"
  | "stale_token"
  | "unknown_approval"
  | "denied";

/** Subjects of what a client sends, with the prefix `unknot`. */
export type SendSubject =
  | `unknot.${string}.in.${string}.send.${string}.${string}`
  | `unknot.${string}.in.${string}.ask.${string}.${string}`
  | `unknot.${string}.in.${string}.request.${string}.${string}`
  | `unknot.${string}.in.${string}.publish.${string}`
  | `unknot.${string}.in.${string}.reply.${string}`
  | `unknot.${string}.in.${string}.hello`
  | `unknot.${string}.in.${string}.heartbeat`
  | `unknot.${string}.in.${string}.bye`
  | `unknot.${string}.in.${string}.done`
  | `unknot.${string}.in.${string}.defer`
  | `unknot.${string}.in.${string}.facts`
  | `unknot.${string}.in.${string}.wait.open`
  | `unknot.${string}.in.${string}.wait.close`
  | `unknot.${string}.in.${string}.request.cancel`
  | `unknot.${string}.in.${string}.lock.acquire`
  | `unknot.${string}.in.${string}.lock.renew`
  | `unknot.${string}.in.${string}.lock.release`
  | `unknot.${string}.in.${string}.lock.check`
  | `unknot.${string}.in.${string}.pool.declare`
  | `unknot.${string}.in.${string}.artifact.declare`
  | `unknot.${string}.in.${string}.artifact.withdraw`
  | `unknot.${string}.in.${string}.artifact.publish`
  | `unknot.${string}.in.${string}.artifact.forget`
  | `unknot.${string}.in.${string}.artifact.wait`
  | `unknot.${string}.in.${string}.approval.request`
  | `unknot.${string}.in.${string}.approval.resolve`
  | `unknot.${string}.in.${string}.holder.set`
  | `unknot.${string}.in.${string}.holder.clear`;

/** Subjects of what a client receives, with the prefix `unknot`. */
export type ReceiveSubject =
  | `unknot.${string}.out.${string}.${string}.event.${string}`
  | `unknot.${string}.out.${string}.${string}.outcome`
  | `unknot.${string}.out.${string}.${string}.control.confirm`
  | `unknot.${string}.out.${string}.${string}.control.request.abandoned`
  | `unknot.${string}.out.${string}.${string}.control.session.replaced`
  | `unknot.${string}.out.${string}.${string}.control.agent.wait.deadlock_detected`
  | `unknot.${string}.out.${string}.${string}.control.agent.wait.blocked_behind`
  | `unknot.${string}.out.${string}.${string}.control.lock.lapsed`
  | `unknot.${string}.out.${string}.${string}.control.approval.requested`
  | `unknot.${string}.channel.${string}.${string}`
  | `unknot.${string}.topic.${string}`
  | `unknot.${string}.notice.agent.wait.deadlock_detected`
  | `unknot.${string}.notice.agent.wait.blocked_behind`
  | `unknot.${string}.notice.agent.pools_differ`
  | `unknot.${string}.notice.approval.requested`
  | `unknot.${string}.notice.agent.over_limit`;

/** Body of each operation, and what answers it on the NATS reply subject. */
export interface Operations {
  /** A one-way event. */
  "send": {
    does: "send";
    subject: `unknot.${string}.in.${string}.send.${string}.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A request; the sender goes on, its Outcome comes later. */
  "ask": {
    does: "send";
    subject: `unknot.${string}.in.${string}.ask.${string}.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A blocking request; its Outcome comes to the NATS reply subject, else to the outcome subject. */
  "request": {
    does: "send";
    subject: `unknot.${string}.in.${string}.request.${string}.${string}`;
    body: Envelope;
    answer: Outcome | Receipt;
  };
  /** An event without target. */
  "publish": {
    does: "send";
    subject: `unknot.${string}.in.${string}.publish.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** An answer. */
  "reply": {
    does: "send";
    subject: `unknot.${string}.in.${string}.reply.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A session begins, or goes on after an epoch change. */
  "hello": {
    does: "send";
    subject: `unknot.${string}.in.${string}.hello`;
    body: Hello;
    answer: Welcome | Receipt;
  };
  /** What is open and held. */
  "heartbeat": {
    does: "send";
    subject: `unknot.${string}.in.${string}.heartbeat`;
    body: Heartbeat;
    answer: Pulse | Receipt;
  };
  /** The session ends. */
  "bye": {
    does: "send";
    subject: `unknot.${string}.in.${string}.bye`;
    body: Bye;
    answer: Receipt;
  };
  /** The handlers of these events have returned. */
  "done": {
    does: "send";
    subject: `unknot.${string}.in.${string}.done`;
    body: Done;
    answer: Receipt;
  };
  /** The answers come later. */
  "defer": {
    does: "send";
    subject: `unknot.${string}.in.${string}.defer`;
    body: Defer;
    answer: Receipt;
  };
  /** Answer to control confirm. */
  "facts": {
    does: "send";
    subject: `unknot.${string}.in.${string}.facts`;
    body: Facts;
    answer: Receipt;
  };
  /** An execution cannot go on until something is true. */
  "wait.open": {
    does: "send";
    subject: `unknot.${string}.in.${string}.wait.open`;
    body: WaitOpen;
    answer: Receipt;
  };
  /** A wait has ended on the agent's side. */
  "wait.close": {
    does: "send";
    subject: `unknot.${string}.in.${string}.wait.close`;
    body: WaitClose;
    answer: Receipt;
  };
  /** The answer is not wanted any more. */
  "request.cancel": {
    does: "send";
    subject: `unknot.${string}.in.${string}.request.cancel`;
    body: RequestCancel;
    answer: Receipt;
  };
  /** Grant locks and permits, all or none. */
  "lock.acquire": {
    does: "send";
    subject: `unknot.${string}.in.${string}.lock.acquire`;
    body: LockAcquire;
    answer: Receipt;
  };
  /** A lease begins anew. */
  "lock.renew": {
    does: "send";
    subject: `unknot.${string}.in.${string}.lock.renew`;
    body: LockRenew;
    answer: Receipt;
  };
  /** What is held is given back. */
  "lock.release": {
    does: "send";
    subject: `unknot.${string}.in.${string}.lock.release`;
    body: LockRelease;
    answer: Receipt;
  };
  /** Is this fencing token still good?. */
  "lock.check": {
    does: "send";
    subject: `unknot.${string}.in.${string}.lock.check`;
    body: LockCheck;
    answer: Receipt;
  };
  /** How many permits there are. */
  "pool.declare": {
    does: "send";
    subject: `unknot.${string}.in.${string}.pool.declare`;
    body: PoolDeclare;
    answer: Receipt;
  };
  /** An execution may produce an artifact. */
  "artifact.declare": {
    does: "send";
    subject: `unknot.${string}.in.${string}.artifact.declare`;
    body: ArtifactDeclare;
    answer: Receipt;
  };
  /** An execution will not produce it. */
  "artifact.withdraw": {
    does: "send";
    subject: `unknot.${string}.in.${string}.artifact.withdraw`;
    body: ArtifactWithdraw;
    answer: Receipt;
  };
  /** An artifact is there. */
  "artifact.publish": {
    does: "send";
    subject: `unknot.${string}.in.${string}.artifact.publish`;
    body: ArtifactPublish;
    answer: Receipt;
  };
  /** An artifact may be produced anew. */
  "artifact.forget": {
    does: "send";
    subject: `unknot.${string}.in.${string}.artifact.forget`;
    body: ArtifactForget;
    answer: Receipt;
  };
  /** Wait for an artifact. */
  "artifact.wait": {
    does: "send";
    subject: `unknot.${string}.in.${string}.artifact.wait`;
    body: ArtifactWait;
    answer: Receipt;
  };
  /** Wait for a decision. */
  "approval.request": {
    does: "send";
    subject: `unknot.${string}.in.${string}.approval.request`;
    body: ApprovalRequest;
    answer: Receipt;
  };
  /** The decision of the agent that was asked. */
  "approval.resolve": {
    does: "send";
    subject: `unknot.${string}.in.${string}.approval.resolve`;
    body: ApprovalResolve;
    answer: Receipt;
  };
  /** Who holds something outside. */
  "holder.set": {
    does: "send";
    subject: `unknot.${string}.in.${string}.holder.set`;
    body: HolderSet;
    answer: Receipt;
  };
  /** It is held no more. */
  "holder.clear": {
    does: "send";
    subject: `unknot.${string}.in.${string}.holder.clear`;
    body: HolderClear;
    answer: Receipt;
  };
  /** A delivered event; the NATS reply subject of a request is where its answer goes. */
  "event": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.event.${string}`;
    body: Delivered;
    answer: Envelope;
  };
  /** How a request or a wait ended. */
  "outcome": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.outcome`;
    body: Outcome;
    answer: null;
  };
  /** Asks where waits and requests stand. */
  "control.confirm": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.confirm`;
    body: Confirm;
    answer: null;
  };
  /** Nobody waits for this answer any more. */
  "control.request.abandoned": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.request.abandoned`;
    body: Abandoned;
    answer: null;
  };
  /** Another session has taken this one's place. */
  "control.session.replaced": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.session.replaced`;
    body: Replaced;
    answer: null;
  };
  /** Waits that can never end, one of them here. */
  "control.agent.wait.deadlock_detected": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.agent.wait.deadlock_detected`;
    body: DeadlockDetected;
    answer: null;
  };
  /** What these waits hang on is deadlocked. */
  "control.agent.wait.blocked_behind": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.agent.wait.blocked_behind`;
    body: BlockedBehind;
    answer: null;
  };
  /** A lease is over. */
  "control.lock.lapsed": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.lock.lapsed`;
    body: Lapsed;
    answer: null;
  };
  /** A decision of this agent is waited for. */
  "control.approval.requested": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.approval.requested`;
    body: ApprovalRequested;
    answer: null;
  };
  /** A one-way event for all members. */
  "channel": {
    does: "receive";
    subject: `unknot.${string}.channel.${string}.${string}`;
    body: Delivered;
    answer: null;
  };
  /** An event without target. */
  "topic": {
    does: "receive";
    subject: `unknot.${string}.topic.${string}`;
    body: Delivered;
    answer: null;
  };
  /** For monitors: Waits that can never end, one of them here. */
  "notice.agent.wait.deadlock_detected": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.wait.deadlock_detected`;
    body: DeadlockDetected;
    answer: null;
  };
  /** For monitors: What these waits hang on is deadlocked. */
  "notice.agent.wait.blocked_behind": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.wait.blocked_behind`;
    body: BlockedBehind;
    answer: null;
  };
  /** For monitors: Sessions of one agent serve different types. */
  "notice.agent.pools_differ": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.pools_differ`;
    body: PoolsDiffer;
    answer: null;
  };
  /** For monitors: A decision of this agent is waited for. */
  "notice.approval.requested": {
    does: "receive";
    subject: `unknot.${string}.notice.approval.requested`;
    body: ApprovalRequested;
    answer: null;
  };
  /** For monitors: An agent sends more than it may, and is shed. */
  "notice.agent.over_limit": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.over_limit`;
    body: OverLimit;
    answer: null;
  };
}
